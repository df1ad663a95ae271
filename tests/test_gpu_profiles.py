"""The profiles for a GPU from the download to the report, on tiny random models of the real architectures and under the same
quantization, on any machine. What random models answer means nothing: tested is that each step runs to its end."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mtrag_nb.app.data import _fetch_hub, _wanted_models, ingest
from mtrag_nb.app.measure import judge, score
from mtrag_nb.app.options import call_typed
from mtrag_nb.app.pages import report
from mtrag_nb.app.reproduce import reproduce
from mtrag_nb.app.run import run
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.settings import ModelSpec
from mtrag_nb.data.mtrag import sample_corpus, sample_dir
from mtrag_nb.models.chat import chat
from mtrag_nb.models.local import TransformersChat
from mtrag_nb.systems.outside import configure
from tests.support.hub import StandInHub, hub_environment
from tests.support.tiny import make_tiny, tiny_cache
from tests.support.volume import few

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
SMALL, LARGE = "Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen2.5-14B-Instruct"
EMBEDDER, RERANKER = "BAAI/bge-m3", "BAAI/bge-reranker-v2-m3"
PROFILES = ("t4", "ncl", "judge")
FETCH = """
import sys
from mtrag_nb.app.cli import main
from mtrag_nb.app.data import profile_problems
from mtrag_nb.systems.outside import profiles

for name in sys.argv[1:]:
    assert main(["fetch", "models", "--profile", name]) == 0, name
    print(name, *profile_problems(profiles()[name]), sep="; ")
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    "A folder for the hub's client."
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def fetched(home, tmp_path_factory) -> str:
    "The models of the profiles are fetched from a hub, by the command that a user types; what it prints."
    folder = tmp_path_factory.mktemp("hub")
    make_tiny(folder, [LLAMA, SMALL, LARGE, EMBEDDER, RERANKER])
    command = [sys.executable, "-c", FETCH, *PROFILES]
    with StandInHub(folder, gated=[LLAMA], tokens=["hf_who_may"]) as hub:
        env = {**os.environ, **hub_environment(hub.url, home, "hf_who_may")}
        done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    return done.stdout


@pytest.fixture(scope="module")
def offline(fetched, home) -> Iterator[None]:
    "In this process, without a network, the models are those that were fetched."
    from huggingface_hub import constants

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
        yield


def test_what_was_fetched_is_not_missing(fetched):
    about = [line for line in fetched.splitlines() if line.startswith(PROFILES)]
    assert [line.partition(";")[0] for line in about] == list(PROFILES)
    assert not any("fetch" in line for line in about), about


def test_what_was_fetched_is_found_without_a_network(offline):
    wanted = _wanted_models(configure("self_crag", "t4"))
    assert list(_fetch_hub(wanted)) == [LLAMA, EMBEDDER, RERANKER]


# The project has a decoding of its own: padded batches, and a beginning that is computed once. It is
# compared with `generate` of transformers. In half precision each shape of a batch rounds otherwise: there only single prompts are.


DOCUMENTS = "Tidebase plans and their limits. " * 25
QUESTIONS = (
    "How much is a licence?",
    "What are the limits of the plan, and for students?",
)
ASKED = [f"Documents:\n{DOCUMENTS}\n\nQuestion: {q}" for q in QUESTIONS]
LAST = "What is a mortgage, and how do I get one in Corvane?"
PROMPTS = [
    *(chat("You answer from documents.", q) for q in ASKED),
    chat("", "Hello there"),
]
PROMPTS += [chat("Be short.", "And the ferry?", "It costs 12 crowns.", LAST)]
NEW_TOKENS = 12


def by_transformers(loaded, row: list[int]) -> str:
    "What `generate` writes after a row of tokens, greedily, without the repetition penalty that Qwen's file asks for."
    import torch

    ids = torch.tensor([row], device=loaded.device)
    how = {"temperature": None, "top_p": None, "top_k": None, "repetition_penalty": 1.0}
    how |= {"max_new_tokens": NEW_TOKENS, "do_sample": False, "pad_token_id": 0}
    how |= {"attention_mask": torch.ones_like(ids), "eos_token_id": sorted(loaded.ends)}
    out = loaded.model.generate(ids, **how)
    new = out[0, len(row) :].tolist()
    end = next((i for i, t in enumerate(new) if t in loaded.ends), len(new))
    return loaded.tokenizer.decode(new[:end], skip_special_tokens=True)


DECODED = [  # a model, its quantization and precision
    (LLAMA, "nf4", "fp32"),
    (SMALL, "", "fp16"),
    (LLAMA, "", "fp32"),
    (LLAMA, "nf4", "fp16"),
    (LLAMA, "", "bf16"),
    (SMALL, "", "fp32"),
    (SMALL, "nf4", "fp32"),
    (LARGE, "", "fp32"),
    (LARGE, "nf4", "fp16"),
]


@pytest.mark.parametrize("case", few(DECODED, 2), ids=str)
def test_a_model_is_decoded_as_transformers_decodes_it(case, offline):
    name, quantization, dtype = case
    spec = ModelSpec(name, dtype=dtype, quantization=quantization, device="cpu")
    model = TransformersChat(spec, batch_size=8)
    loaded = model.load()
    layer = loaded.model.model.layers[0].mlp.up_proj
    assert type(layer).__name__ == ("Linear4bit" if quantization else "Linear")
    expected = [by_transformers(loaded, model.encode(p)) for p in PROMPTS]
    if dtype == "fp32":
        assert [c.text for c in model.generate(PROMPTS, NEW_TOKENS)] == expected
    for prompt, text in zip(PROMPTS, expected):
        assert model.generate([prompt], NEW_TOKENS)[0].text == text
    model.unload()


# From passages to a report: the index by the tiny BGE-M3, Self-CRAG with its cross-encoder and the baseline on t4, NCL on ncl, all
# in four bits; then the judge's profile over the baseline's answers.


SYSTEMS = {"self_crag": "t4", "naive": "t4", "ncl": "ncl"}
SHORT = {"stages.max_new_tokens": 10, "chat.device": "cpu"}


@pytest.fixture(scope="module")
def runs(offline, tmp_path_factory) -> Iterator[dict[str, Run]]:
    "Two turns by each system."
    tasks = sample_dir() / "reference.jsonl"
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path_factory.mktemp("runs"))
        t4 = configure("self_crag", "t4", SHORT)
        ingest(sample_corpus(), "index", ["clapnq"], t4, progress=False)

        def run_of(system, profile):
            settings = configure(system, profile, SHORT)
            how = {
                "domains": ["clapnq"],
                "limit": 2,
                "settings": settings,
                "progress": False,
            }
            return run(tasks, system, system, "index", **how)

        yield {system: run_of(system, profile) for system, profile in SYSTEMS.items()}


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_run_in_four_bits_ends_without_an_error(system, runs):
    turns = runs[system].trajectories.values()
    assert len(turns) == 2 and not any(t.error for t in turns), [t.error for t in turns]


def test_runs_in_four_bits_are_judged_scored_and_reported_on(runs):
    settings = configure("self_crag", "judge", {"chat.device": "cpu"})
    protocols = ["refusal", "faithfulness"]
    (judged,) = judge(["naive"], protocols=protocols, settings=settings, progress=False)
    assert judged.pending == 0
    scores = dict(zip(runs, score(list(runs), encoder="none")))
    assert {"judge_faithfulness", "judge_hallucination"} <= set(
        scores["naive"].measures
    )
    page = report(list(runs)).read_text(encoding="utf-8")
    assert all(name in page for name in (*runs, LLAMA, SMALL))


# A paper by one command: ingestion, its runs as published, the judge, tables, figures and the page.


PAPERS = (
    ("ncl", "ncl"),
    ("agents", "agents"),
    ("nexus", "nexus"),
    ("self_crag", "t4"),
    ("self_crag", "t4x2"),
)


@pytest.fixture(scope="module")
def all_tiny(tmp_path_factory) -> Iterator[None]:
    "In this process the hub's cache holds a tiny model in the place of each."
    from huggingface_hub import constants

    folder = tmp_path_factory.mktemp("tiny")
    with pytest.MonkeyPatch.context() as patched:
        cache = tiny_cache(folder / "made", folder / "cache")
        patched.setattr(constants, "HF_HUB_CACHE", str(cache))
        yield


@pytest.mark.slow
@pytest.mark.parametrize(("paper", "profile"), PAPERS)
def test_a_paper_is_reproduced_as_published_by_the_models_of_its_profile(
    paper: str, profile: str, all_tiny: None, tmp_path: Path
):
    changes = ["stages.max_new_tokens=8", "chat.device=cpu", "embedder.device=cpu"]
    if profile == "t4x2":
        changes.append("reranker.device=cpu")
    words = [paper, "--profile", profile, "--data", "sample", "--limit", "2"]
    for change in changes:
        words += ["--set", change]
    assert call_typed(reproduce, *words, "--out", str(tmp_path)) == 0
    turns = Run(tmp_path / paper).trajectories.values()
    assert len(turns) == 2 and not any(t.error for t in turns)
    assert Run(tmp_path / paper).system == f"{paper}+published"
    assert (tmp_path / "reproduction.html").is_file()
