"The specification's own configuration file, as printed in its section 12.1, answers a question on every profile."

import pytest

from mtrag_nb.core.files import data_dir
from mtrag_nb.data.mtrag import read_benchmark, read_corpus, sample_corpus, sample_dir
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import ScriptedChat
from mtrag_nb.models.embed import HashEmbedder
from mtrag_nb.runs.run import run_tasks
from mtrag_nb.search.ingest import build_index
from mtrag_nb.systems.agents import AGENTS
from mtrag_nb.systems.agents import system_yaml_changes


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("index")
    build_index(read_corpus(*sample_corpus()), folder, HashEmbedder(), progress=False)
    return folder


def helpful(prompt) -> str:
    "Grades as a model of some size does, and an answer."
    return "8" if "from 0 to 10" in prompt.messages[-1][1] else "It is open to visitors."


def eight(prompt, text: str) -> float:
    "The log-probability of a grade: 8 is the likeliest."
    return 0.0 if text.strip() == "8" else -5.0


@pytest.mark.parametrize("profile", ["laptop", "agents", "agents-server"])
def test_the_printed_file_answers(profile, index, tmp_path):
    "As long as the threshold of 7 was held against cosines, the laptop refused every question."
    changes = system_yaml_changes(data_dir("paper") / "system.yaml", AGENTS.configured(profile))
    changes |= {"chunks.parent_size": 1200, "chunks.parent_overlap": 100}  # as the index has them
    changes |= {"chunks.child_size": 400, "chunks.child_overlap": 50}
    changes["embedder.prefixes"] = ""
    settings = AGENTS.configured(profile, changes)
    assert settings.own.grade.startswith("scale") and settings.own.grade_threshold == 7
    models = Models(settings, chat=ScriptedChat(helpful, scores=eight), embedder=HashEmbedder())
    tasks = read_benchmark(sample_dir() / "reference.jsonl").tasks[:2]
    run = run_tasks(AGENTS, tasks, tmp_path / "run", settings, index, models=models, progress=False)
    outcomes = {t.outcome.value for t in run.trajectories.values()}
    assert outcomes == {"answered"}, [t.error or t.reason for t in run.trajectories.values()]
