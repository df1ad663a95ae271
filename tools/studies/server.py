"""The same system over `transformers serve` and in this process, turn by turn.

`3_models/06_server` proves the client against stand-ins. Here the other side is real, started with the laptop's model. It is a
good server to test against because it can do little: it refuses what it does not know, gives no log-probabilities, begins no
replies in its chat, does not cut off what ends a reply, and has one random generator for all requests. What works with it works
with the others. The embedded model is a GGUF file of its own kind; a server wants the usual files. They are written in the
precision in which the model computes here (fp32), so that both sides multiply the same numbers. The generation settings allow
sampling: without `do_sample` this server ignores the temperature, silently. So that replies begin with the same words on both
sides, the prompt is sent as one text (`/completions`), made by the model's own template here: `ByText` adds that to `ServerChat`,
for this comparison only. Everything is greedy (`stages.retry_temperature=0`).
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
from transformers import AutoTokenizer

from mtrag_nb.core.files import write_json
from mtrag_nb.core.html import text_table
from mtrag_nb.core.settings import ModelSpec, load_settings
from mtrag_nb.core.types import ServerError, Task
from mtrag_nb.data.mtrag import read_corpus, read_tasks, sample_corpus, sample_dir
from mtrag_nb.models.calls import Models
from mtrag_nb.models.chat import escape_prompt
from mtrag_nb.models.weights import load_gguf
from mtrag_nb.models.weights import find_model, torch_dtype
from mtrag_nb.models.server import ServerChat
from mtrag_nb.runs.run import machine, package_versions, run_tasks
from mtrag_nb.search.ingest import build_index
from mtrag_nb.systems.outside import configure, find_system
from tools.study import kept_in


def server_table(told: Mapping) -> str:
    "Both ways, side by side."
    rows = []
    for name, key in (("in this process", "here"), ("transformers serve", "server")):
        m = told[key]
        rates = (f"{60 * m['calls'] / m[s]:.1f}" for s in ("seconds", "cpu_seconds"))
        rows.append([name, m["calls"], *rates])
    return text_table(["", "calls", "a minute", "a CPU-minute"], rows)


def as_folder(
    folder: str | Path,  # made; 540 MB
    spec: ModelSpec | None = None,  # of a GGUF file; None: the laptop's model
) -> Path:
    "A model as safetensors, tokenizer and settings, as every server opens them. What is there is not written again."
    folder = Path(folder)
    if (folder / "config.json").exists():
        return folder
    tokenizer, model = load_gguf(
        find_model(spec or load_settings().chat), torch_dtype("fp32")
    )
    model.generation_config.do_sample = True
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def free_port() -> int:
    "A port that nobody listens on."
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(url: str, process: subprocess.Popen, log: Path, seconds: float) -> None:
    "Wait until a server answers. Raises ServerError with the end of its log if it ends, or takes too long."
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        try:
            if httpx.get(url, timeout=5).is_success:
                return
        except httpx.HTTPError:
            time.sleep(0.3)
    raise ServerError(
        f"the server did not start: {log.read_text(errors='replace')[-600:]}"
    )


@contextmanager
def served(
    folder: Path,  # of the model
    seconds: float = 180.0,  # within which it has to answer
) -> Iterator[
    tuple[ModelSpec, subprocess.Popen]
]:  # what a profile says of it, and the process
    "`transformers serve` with a model, while the block runs. Raises ServerError if it does not start."
    port = free_port()
    log = Path(tempfile.mkstemp(suffix=".log")[1])
    how = f"--device cpu --dtype float32 --host 127.0.0.1 --port {port}".split()
    command = [
        str(Path(sys.executable).with_name("transformers")),
        "serve",
        str(folder),
        *how,
    ]
    env = {**os.environ, "HF_HUB_OFFLINE": "1"}
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=env)
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process, log, seconds)
        yield ModelSpec(str(folder), url=f"http://127.0.0.1:{port}/v1"), process
    finally:
        process.terminate()
        process.wait()
        log.unlink()


class ByText(ServerChat):
    "A server that reads each prompt as one text, by the template of a folder on this machine."

    def __init__(self, spec: ModelSpec, batch_size: int = 8):
        super().__init__(spec, batch_size)
        self.tokenizer = AutoTokenizer.from_pretrained(spec.name, local_files_only=True)

    def _way(self, *args) -> str:
        return "text"

    def _ask(self, prompt, on_text=None, thinks=False, **how) -> dict:
        special = self.tokenizer.added_tokens_decoder.values()
        prompt = escape_prompt(prompt, tuple(t.content for t in special if t.special))
        said = [{"role": role, "content": text} for role, text in prompt.messages]
        text = self.tokenizer.apply_chat_template(
            said, tokenize=False, add_generation_prompt=True
        )
        body = {"model": self.spec.name, "prompt": text + prompt.prefill, **how}
        reply = self.connection.post("/completions", body)
        choices = [{**c, "message": {"content": c["text"]}} for c in reply["choices"]]
        return {**reply, "choices": choices}


GREEDY = {"stages.retry_temperature": 0.0}


def answered(
    tasks: Sequence[Task],
    out: Path,  # folder of the run
    models: Models,
    index: Path | None = None,  # None: the passages that come with the tasks
    system: str = "self_crag",
) -> list[tuple[str, str]]:  # outcome and answer of each task, in order
    "What a system answers."
    setting = {"index": index} if index else {"setting": "reference"}
    run = run_tasks(
        find_system(system),
        tasks,
        out,
        models.settings,
        models=models,
        progress=False,
        **setting,
    )
    ends = [run.trajectories[t.id] for t in tasks]
    return [(t.end, t.answer) for t in ends]


def over(spec: ModelSpec, changes: dict | None = None) -> Models:
    "The laptop's models, with the chat model behind a server."
    own = {"chat.name": spec.name, "chat.url": f"{spec.url}#transformers"}
    settings = configure("self_crag", "laptop", {**GREEDY, **own, **(changes or {})})
    return Models(settings, chat=ByText(settings.chat, settings.batch_size))


def process_cpu_seconds(pid: int) -> float:
    "CPU-seconds of a process so far (Linux); 0 elsewhere."
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(
    tasks: Sequence[Task],
    out: Path,
    models: Models,
    index: Path | None,
    pids: Sequence[int],
) -> tuple[list, dict]:
    "Answers, and what they took: calls, and the seconds and CPU-seconds of these processes."
    models.chat.generate([], 1)
    start = time.perf_counter()
    cpu = sum(map(process_cpu_seconds, pids))
    ends = answered(tasks, out, models, index)
    calls = sum(1 for _ in open(out / "calls.jsonl", encoding="utf-8"))
    return ends, {
        "calls": calls,
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(sum(map(process_cpu_seconds, pids)) - cpu, 1),
    }


def measure_server(
    out: str | Path = "data/measured/server.json",
    turns: int = 10,
    work: str
    | Path = "runs/server",  # the model's folder, the index and the runs; gone on with
) -> dict:
    "Ten turns in this process and over a server. A quarter of an hour on one core."
    work = Path(work)
    work.mkdir(parents=True, exist_ok=True)
    tasks = read_tasks(sample_dir() / "reference.jsonl")[:turns]
    models = Models(configure("self_crag", "laptop", {**GREEDY, "batch_size": 4}))
    index = work / "index"
    passages = list(read_corpus(*sample_corpus()))
    build_index(
        passages, index, models.embedder, models.settings.chunks, progress=False
    )
    here, ours = timed(tasks, work / "here", models, index, [os.getpid()])
    with served(as_folder(work / "smollm2")) as (spec, process):
        server = over(spec, {"batch_size": 4})
        server = Models(server.settings, chat=server.chat, embedder=models.embedder)
        there, theirs = timed(
            tasks, work / "server", server, index, [os.getpid(), process.pid]
        )
    pairs = [
        {"task": t.id, "here": a, "server": b} for t, a, b in zip(tasks, here, there)
    ]
    different = [p for p in pairs if p["here"] != p["server"]]
    told = {
        "machine": machine(),
        "packages": package_versions(),
        "turns": turns,
        "same": turns - len(different),
        "ends": [end for end, _ in here],
        "different": different,
        "here": ours,
        "server": theirs,
        "load": [round(x, 1) for x in os.getloadavg()]
        if hasattr(os, "getloadavg")
        else [],
    }
    write_json(out, told)
    print(server_table(told))
    return told


def show_server() -> None:
    "Print both ways side by side, and how many turns end alike."
    told = kept_in("server")
    print(server_table(told))
    answers = told["ends"].count("answered")
    print(
        f"{told['same']} of {told['turns']} turns end alike, in the same words; {answers} are answers"
    )
    assert told["same"] == told["turns"] == 10
    assert not told["different"]
