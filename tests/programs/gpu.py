"""The T4's path on a machine with a GPU: models of the published sizes, with random weights, under the settings of the T4's profiles.

  python tests/programs/gpu.py OUT.json [--tiny] [--without-judge]     some minutes; 60 GB of disk with the judge

What random models answer means nothing. Measured are what size and arithmetic decide: seconds to load and quantise, bytes of the weights
and at the most, tokens read and written a second, texts embedded and pairs reranked, and what Self-CRAG takes under the settings of the
T4's profile. The process may take no more memory than a T4 has, and computes in fp16, as a T4 does. Then the laptop's own chat model
answers the sample on the GPU, in fp32 and in four bits, by Self-CRAG as published; its answers are held against those of the CPU.
`--tiny` runs the same steps on tiny models, on any machine.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from mtrag_nb.app.cli import main as mtrag
from mtrag_nb.core.files import write_json
from mtrag_nb.core.run_folder import Run
from mtrag_nb.core.settings import BGE_M3, PROFILES, ModelSpec
from mtrag_nb.data.mtrag import sample_corpus, sample_dir
from mtrag_nb.models.chat import Prompt, chat
from mtrag_nb.models.device import make_room
from mtrag_nb.models.embed import CrossEncoderReranker, Embedder
from mtrag_nb.models.local import TransformersChat
from mtrag_nb.runs.run import machine, package_versions
from tests.support import tiny

T4 = 14.7 * 2**30  # bytes that a T4 leaves to a process
CHILD, PARENT, KEPT, WRITTEN = (
    400,
    1200,
    5,
    128,
)  # characters; passages of a prompt; tokens of an answer
CHILDREN = 1_560_000  # of 400 characters, in the four corpora of MTRAG

LLAMA_8B = {"vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336}
LLAMA_8B |= {
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}
LLAMA_8B |= {"head_dim": 128, "initializer_range": 0.02}
QWEN_14B = {"vocab_size": 152064, "hidden_size": 5120, "intermediate_size": 13824}
QWEN_14B |= {
    "num_hidden_layers": 48,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
}
QWEN_14B |= {"initializer_range": 0.02}
XLMR_LARGE = {"vocab_size": 250002, "hidden_size": 1024, "intermediate_size": 4096}
XLMR_LARGE |= {"num_hidden_layers": 24, "num_attention_heads": 16}


def cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def memory(peak: bool = False) -> int:
    "Bytes of the GPU that this process holds now, or held at the most since it was last asked for now."
    if not cuda():
        return 0
    import torch

    if peak:
        return torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def as_t4() -> None:
    "From now on this process may take as much memory as a T4 has, and is told so."
    import torch

    make_room()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, T4 / total))

    def said(device=None) -> tuple[int, int]:  # free bytes, and all
        return max(0, int(T4) - torch.cuda.memory_reserved(device)), int(T4)

    torch.cuda.mem_get_info = said


def timed(work: Callable[[], object]) -> tuple[object, float]:
    "What some work gives, and the seconds that it took."
    start = time.perf_counter()
    out = work()
    return out, time.perf_counter() - start


def prompts(n: int) -> list[Prompt]:
    "Questions over five parents of the sample, each with other ones, so that nothing is shared."
    text = "\n".join(tiny.sample_texts())
    size = KEPT * PARENT
    pieces = [text[(i * 997) % (len(text) - size) :][:size] for i in range(n)]
    return [
        chat(f"{p}\n\nWhat do the passages say? ({i})") for i, p in enumerate(pieces)
    ]


def as_transformers(model: TransformersChat, prompt: Prompt, tokens: int) -> list[int]:
    "The same prompt, continued greedily by the library's own loop."
    import torch

    loaded = model.load()
    ids = torch.tensor([model.encode(prompt)], device=loaded.device)
    how = {"do_sample": False, "repetition_penalty": 1.0, "max_new_tokens": tokens}
    with torch.inference_mode():
        out = loaded.model.generate(ids, attention_mask=torch.ones_like(ids), **how)
    return out[0, ids.shape[1] :].tolist()


def chat_row(spec: ModelSpec, batch_size: int) -> dict:
    "A chat model as the profile loads it: memory, and the speed of reading, writing and choosing."
    before = memory()
    model = TransformersChat(spec, batch_size=batch_size, batch_tokens=8192)
    _, loading = timed(model.load)
    weights, asked = memory() - before, prompts(batch_size)
    model.generate(asked[:1], 2)  # kernels are built on the first call
    read, reading = timed(lambda: model.generate(asked, 1))
    wrote, both = timed(lambda: model.generate(asked, WRITTEN))
    twice = [p for p in asked for _ in "ab"]
    scored, choosing = timed(lambda: model.score(twice, ["yes", "no"] * len(asked)))
    peak = memory(peak=True) - before
    alone = model.generate(asked[:1], 32)[0]
    ids = as_transformers(model, asked[0], 32)
    theirs = model.load().tokenizer.decode(ids, skip_special_tokens=True)
    tokens = sum(c.tokens_out for c in wrote)
    written = (
        tokens / (both - reading) if both > reading else None
    )  # too fast for this clock
    row = {
        "seconds to load": loading,
        "GiB of weights": weights / 2**30,
        "GiB at the most": peak / 2**30,
        "rows in a batch": batch_size,
        "tokens in a prompt": sum(c.tokens_in for c in read) / len(read),
        "tokens read a second": sum(c.tokens_in for c in read) / reading,
        "tokens written a second": written,
        "choices between two labels a second": len(asked) / choosing,
        "scores": len(scored),
        "characters alike with transformers' generate": common(
            alone.text.strip(), theirs.strip()
        ),
        "characters of that reply": len(alone.text),
    }
    model.unload()
    return row


def common(a: str, b: str) -> int:
    "How many characters two texts have in common at their beginning."
    return next(
        (n for n, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b))
    )


def helper_rows(
    embedder: Path, reranker: Path, device: str, dtype: str, n: int
) -> dict:
    "Texts embedded and pairs reranked in a second."
    text = "\n".join(tiny.sample_texts())
    children = [text[(i * 97) % (len(text) - CHILD) :][:CHILD] for i in range(n)]
    before = memory()
    model = Embedder(ModelSpec(str(embedder), device=device, dtype=dtype))
    model.encode(
        [c[::-1] for c in children[:64]]
    )  # kernels are built on the first call
    _, embedding = timed(lambda: model.encode(children))
    embedded = {
        "children a second": n / embedding,
        "GiB at the most": (memory(peak=True) - before) / 2**30,
        "hours for MTRAG's four corpora": CHILDREN * embedding / n / 3600,
    }
    model.unload()
    before = memory()
    judge = CrossEncoderReranker(ModelSpec(str(reranker), device=device, dtype=dtype))
    judge.score("What is it?", children[:16])
    _, scoring = timed(lambda: judge.score("What is it?", children[: n // 4]))
    taken = (memory(peak=True) - before) / 2**30
    reranked = {"pairs a second": n // 4 / scoring, "GiB at the most": taken}
    judge.unload()
    return {"embedder": embedded, "reranker": reranked}


def ingest(*how: str) -> None:
    "The sample's passages into an index."
    if code := mtrag(["ingest", "--passages", *map(str, sample_corpus()), *how]):
        raise RuntimeError(f"mtrag ingest ended with {code}")


def profile_row(
    folder: Path, chat_model: Path, device: str, dtype: str, turns: int
) -> dict:
    "Self-CRAG as published under the T4's profile, over turns of the sample: what it takes above what was allocated before."
    tasks, index, run = (
        sample_dir() / "reference.jsonl",
        folder / "t4_index",
        folder / "t4_run",
    )
    places = {
        "chat": chat_model,
        "embedder": folder / "m3",
        "reranker": folder / "reranker",
    }
    changes = {"chat.quantization": "nf4"}
    for part, place in places.items():
        changes |= {
            f"{part}.name": place,
            f"{part}.device": device,
            f"{part}.dtype": dtype,
        }
    given = [
        "--profile",
        "t4",
        *(w for k, v in changes.items() for w in ("--set", f"{k}={v}")),
    ]
    given += ["--index", str(index)]
    before = memory()
    ingest(*given)
    words = [
        "run",
        "--system",
        "self_crag",
        "--as",
        "published",
        "--tasks",
        str(tasks),
        *given,
    ]
    words += ["--out", str(run), "--limit", str(turns)]
    code, seconds = timed(partial(mtrag, words))
    peak = memory(peak=True) - before
    turned = Run(run).trajectories.values()
    return {
        "turns": len(turned),
        "exit code": code,
        "seconds": seconds,
        "GiB before": before / 2**30,
        "GiB at the most": peak / 2**30,
        "calls": sum(t.calls.n for t in turned),
        "tokens read": sum(t.calls.tokens_in for t in turned),
        "tokens written": sum(t.calls.tokens_out for t in turned),
        **Counter(t.outcome.value for t in turned),
    }


def answers(run: Path) -> dict[str, tuple[str, str]]:
    "Task id -> outcome and answer."
    return {
        t.task_id: (t.outcome.value, t.answer) for t in Run(run).trajectories.values()
    }


def sample_rows(
    folder: Path, device: str, turns: int, keep: Callable[[dict], None]
) -> None:
    "Self-CRAG as published over the sample, by the laptop's own models: on the GPU in four bits and in fp32, and on the CPU."
    tasks, index = sample_dir() / "reference.jsonl", folder / "index"
    ingest("--index", str(index))
    on_gpu = [f"chat.device={device}", f"embedder.device={device}"]
    half = "fp32" if device == "cpu" else "fp16"
    ways = {
        "GPU, four bits": [*on_gpu, "chat.quantization=nf4", f"chat.dtype={half}"],
        "GPU, fp32": on_gpu,
        "CPU, fp32": [],
    }
    rows, said = {}, {}
    for n, (name, changes) in enumerate(ways.items()):
        words = [
            "run",
            "--system",
            "self_crag",
            "--as",
            "published",
            "--tasks",
            str(tasks),
        ]
        words += [
            "--index",
            str(index),
            "--out",
            str(folder / f"way_{n}"),
            "--limit",
            str(turns),
        ]
        words += [w for c in changes for w in ("--set", c)]
        code, seconds = timed(partial(mtrag, words))
        said[name] = answers(folder / f"way_{n}")
        outcomes = Counter(o for o, _ in said[name].values())
        rows[name] = {
            "turns": len(said[name]),
            "exit code": code,
            "seconds": seconds,
            **outcomes,
        }
        keep(rows)
    cpu = said["CPU, fp32"]
    for name, of in said.items():
        rows[name]["outcome as on the CPU"] = sum(of[t][0] == cpu[t][0] for t in of)
        rows[name]["answer as on the CPU"] = sum(of[t] == cpu[t] for t in of)
    keep(rows)


def rounded(x: object) -> object:
    "Numbers to three digits that count."
    if isinstance(x, dict):
        return {k: rounded(v) for k, v in x.items()}
    return float(f"{x:.3g}") if isinstance(x, float) else x


def main(argv: list[str]) -> int:
    out, small = Path(argv[0]), "--tiny" in argv
    turns = 2 if small else 8
    if not small and not cuda():
        print(
            "no GPU is seen here: give --tiny for the same steps on tiny models",
            file=sys.stderr,
        )
        return 2
    device, dtype = ("cuda", "fp16") if cuda() else ("cpu", "fp32")
    rows: dict = {"machine": machine(), "packages": package_versions()}
    if cuda():
        as_t4()
        rows["GiB that it may take"] = T4 / 2**30
    sizes = {"llama": LLAMA_8B, "qwen": QWEN_14B, "xlmr": XLMR_LARGE}
    sizes = {k: {} if small else v for k, v in sizes.items()}
    with tempfile.TemporaryDirectory() as tmp:

        def keep(name: str, row: dict) -> None:
            rows[name] = row
            write_json(out, rounded(rows))
            print(name, rounded(row), flush=True)

        folder = Path(tmp)
        for path, write in (
            ("m3", tiny.tiny_bge_m3),
            ("reranker", tiny.tiny_bge_reranker),
        ):
            (folder / path).mkdir()
            write(folder / path, sizes["xlmr"])
        n = 64 if small else 4096
        helpers = helper_rows(folder / "m3", folder / "reranker", device, dtype, n)
        keep(f"{BGE_M3.name} and its reranker, random weights", helpers)
        chats = {
            "t4": ("llama", tiny.tiny_llama, 8),
            "judge": ("qwen", tiny.tiny_qwen, 4),
        }
        for profile, (kind, write, batch) in chats.items():
            if profile == "judge" and "--without-judge" in argv:
                continue
            place = folder / kind
            draw(write, place, sizes[kind], device)
            spec = ModelSpec(str(place), dtype=dtype, quantization="nf4", device=device)
            keep(
                f"{PROFILES[profile].chat.name}, random weights", chat_row(spec, batch)
            )
            if profile == "t4":
                row = profile_row(folder, place, device, dtype, turns // 2)
                keep("Self-CRAG under the T4's profile, random weights", row)
            for p in place.glob("*.safetensors"):
                p.unlink()
        sample_rows(folder, device, turns, partial(keep, "the laptop's models"))
    return 0


def draw(write: Callable, place: Path, sizes: dict, device: str) -> None:
    "Write a random model; while it is drawn in fp32 it may take more than a T4 has."
    if device == "cpu":
        return write(place, sizes=sizes)
    import torch

    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.set_default_dtype(torch.bfloat16)
    try:
        write(place, sizes=sizes, device=device)
    finally:
        torch.set_default_dtype(torch.float32)
        as_t4()


if __name__ == "__main__":
    if not sys.argv[1:]:
        print(__doc__)
        sys.exit(2)
    sys.exit(main(sys.argv[1:]))
