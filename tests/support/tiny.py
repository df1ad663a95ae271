"""Tiny random models of the real architectures, laid out as on the hub: what the profiles need, in a few hundred kilobytes, for tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from mtrag_nb.core.files import make_folder, read_json, write_json
from mtrag_nb.core.settings import ModelSpec, Settings
from mtrag_nb.core.types import digest
from mtrag_nb.data.mtrag import read_corpus, sample_corpus


@cache
def sample_texts() -> tuple[str, ...]:
    "The sample's passages."
    return tuple(p.text for p in read_corpus(*sample_corpus()))


def byte_pairs(
    special: Sequence[str],  # tokens that no text is split into
    size: int = 1500,  # tokens, without the special ones
):
    "A byte-level BPE tokenizer of the sample."
    from tokenizers import (
        AddedToken,
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
        trainers,
    )

    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    how = {
        "initial_alphabet": sorted(pre_tokenizers.ByteLevel.alphabet()),
        "show_progress": False,
    }
    t.train_from_iterator(sample_texts(), trainers.BpeTrainer(vocab_size=size, **how))
    t.add_special_tokens(
        [AddedToken(s, special=True, normalized=False) for s in special]
    )
    return t


def word_pieces(size: int = 1500):
    "A unigram tokenizer of the sample's words and letters, with the special tokens of XLM-R at its head."
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    counts = Counter(w for t in sample_texts() for w in t.split())
    letters = sorted({c for w in counts for c in w})
    words = sorted(counts, key=lambda w: (-counts[w], w))[: size - len(letters) - 6]
    pieces = [*((s, 0.0) for s in ("<s>", "<pad>", "</s>", "<unk>")), ("▁", -4.0)]
    pieces += [
        *((c, -8.0) for c in letters),
        *(("▁" + w, -2.0) for w in words),
        ("<mask>", 0.0),
    ]
    t = Tokenizer(models.Unigram(pieces, unk_id=3))
    t.pre_tokenizer, t.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    return t


LLAMA_CHAT = (
    "{{- bos_token }}{%- set system, said = '', messages %}"
    "{%- if messages[0].role == 'system' %}{%- set system, said = messages[0].content | trim, messages[1:] %}{%- endif %}"
    "{{- '<|start_header_id|>system<|end_header_id|>\\n\\nCutting Knowledge Date: December 2023\\nToday Date: 26 Jul 2024\\n\\n' }}"
    "{{- system + '<|eot_id|>' }}{%- for m in said %}"
    "{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content | trim + '<|eot_id|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}"
)
QWEN_CHAT = (
    "{%- if messages[0].role != 'system' %}{{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. "
    "You are a helpful assistant.<|im_end|>\\n' }}{%- endif %}"
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)

QWEN3_CHAT = (  # the published one, without its tools
    "{%- if messages[0].role == 'system' %}{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{%- endif %}"
    "{%- for m in messages %}{%- if m.role == 'user' %}{{- '<|im_start|>user\\n' + m.content + '<|im_end|>\\n' }}"
    "{%- elif m.role == 'assistant' %}{%- set said = m.content.split('</think>')[-1].lstrip('\\n') %}"
    "{{- '<|im_start|>assistant\\n' + ('<think>\\n\\n</think>\\n\\n' if loop.last else '') + said + '<|im_end|>\\n' }}"
    "{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
    "{%- endif %}"
)


def _save_tokenizer(
    folder: Path,
    t,  # of the package tokenizers
    kind: str,  # the class that the hub's file names
    **config,
) -> None:
    "The two files of a tokenizer."
    t.save(str(make_folder(folder) / "tokenizer.json"))
    about = {"tokenizer_class": kind, "clean_up_tokenization_spaces": False, **config}
    write_json(folder / "tokenizer_config.json", about)


def _llama_tokenizer(folder: Path):
    "Llama 3.1's: its post-processor puts the beginning before every text."
    from tokenizers import processors

    names = "begin_of_text end_of_text eom_id eot_id start_header_id end_header_id"
    bos, *_ = special = [f"<|{name}|>" for name in names.split()]
    t = byte_pairs(special)
    begins = processors.TemplateProcessing(
        single=f"{bos} $A",
        pair=f"{bos} $A {bos} $B",
        special_tokens=[(bos, t.token_to_id(bos))],
    )
    t.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=False), begins]
    )
    about = {"model_max_length": 131072, "chat_template": LLAMA_CHAT}
    _save_tokenizer(
        folder,
        t,
        "PreTrainedTokenizerFast",
        bos_token=bos,
        eos_token="<|eot_id|>",
        **about,
    )
    return t


def _qwen_tokenizer(folder: Path, chat: str = QWEN_CHAT):
    "Qwen2.5's, or Qwen3's: it has no beginning; the tags of a thought, and an empty line, are tokens, and not special."
    t = byte_pairs(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    if chat is QWEN3_CHAT:
        t.add_tokens(["<think>", "</think>", "\n\n"])
    marks = {"bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    about = {"unk_token": None, "model_max_length": 131072, "chat_template": chat}
    _save_tokenizer(folder, t, "Qwen2Tokenizer", **marks, **about)
    return t


def _xlmr_tokenizer(folder: Path):
    "XLM-R's, of the embedder and the reranker."
    t = word_pieces()
    marks = {
        "bos_token": "<s>",
        "cls_token": "<s>",
        "eos_token": "</s>",
        "sep_token": "</s>",
    }
    marks |= {"pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}
    _save_tokenizer(folder, t, "XLMRobertaTokenizer", **marks, model_max_length=8192)
    return t


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    "Random numbers from a seed, and afterwards those that would have come."
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def _as_published(folder: Path) -> None:
    "Write a configuration with the keys that the hub's files have."
    config = read_json(folder / "config.json")
    rope = config.pop("rope_parameters", None) or {}
    if "rope_theta" in rope:
        config["rope_theta"] = rope.pop("rope_theta")
    if rope.get("rope_type", "default") != "default":
        config["rope_scaling"] = rope
    config["torch_dtype"], config["transformers_version"] = (
        config.pop("dtype"),
        "4.43.0",
    )
    write_json(folder / "config.json", config)


def _save_chat(
    folder: Path,
    kind: str,
    config: dict,
    generation: dict,
    seed: int,
    shard: str = "5GB",
    device: str = "cpu",  # where the random numbers are drawn
    tokens: int = 0,  # more of the vocabulary than so many is never written; 0: all may be
) -> None:
    "The weights of a chat model, in bfloat16, and how its authors sample from it."
    import torch
    import transformers

    make = getattr(transformers, f"{kind}Config")(**config, dtype=torch.bfloat16)
    with _seeded(seed), torch.device(device):
        model = getattr(transformers, f"{kind}ForCausalLM")(make).to(torch.bfloat16)
        if tokens:
            model.lm_head.weight.data[tokens:] = 0
    model.generation_config = transformers.GenerationConfig(
        do_sample=True, **generation
    )
    model.save_pretrained(folder, max_shard_size=shard)
    _as_published(folder)


_CHAT = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "initializer_range": 0.1,
}  # wider than the real ones: with 0.02 so narrow a model repeats the last token of its prompt
_LLAMA_ROPE = {"rope_type": "llama3", "rope_theta": 500000.0, "low_freq_factor": 1.0}
_LLAMA_ROPE |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
_QWEN_ROPE = {"rope_type": "default", "rope_theta": 1000000.0}


def tiny_llama(
    folder: Path,
    tied: bool = False,  # one matrix for both ends, as in Llama 3.2's smaller models
    sizes: Mapping[str, object] = {},  # in the place of tiny ones
    device: str = "cpu",
) -> None:
    "A Llama 3: long positions by scaled rotation, three tokens that end a turn, weights in several files."
    t = _llama_tokenizer(folder)
    ends = ("<|begin_of_text|>", "<|end_of_text|>", "<|eom_id|>", "<|eot_id|>")
    bos, *ends = map(t.token_to_id, ends)
    rope = _LLAMA_ROPE | {"factor": 32.0 if tied else 8.0}
    config = {
        "num_attention_heads": 8,
        "head_dim": 16,
        "max_position_embeddings": 131072,
    }
    config |= {
        "rms_norm_eps": 1e-5,
        "rope_parameters": rope,
        "tie_word_embeddings": tied,
    }
    config |= {
        "vocab_size": t.get_vocab_size(),
        "bos_token_id": bos,
        "eos_token_id": ends,
    }
    sampling = {
        "bos_token_id": bos,
        "eos_token_id": ends,
        "temperature": 0.6,
        "top_p": 0.9,
    }
    shard = "5GB" if sizes else "600KB"
    known = t.get_vocab_size() if sizes else 0
    _save_chat(
        folder, "Llama", {**_CHAT, **config, **sizes}, sampling, 0, shard, device, known
    )


def tiny_qwen(
    folder: Path,
    tied: bool = False,  # one matrix for both ends, as in the smaller models
    sizes: Mapping[str, object] = {},  # in the place of tiny ones
    device: str = "cpu",
) -> None:
    "A Qwen2.5: two tokens that end a turn, biases in attention, more rows than tokens, and a repetition penalty nobody asked for."
    t = _qwen_tokenizer(folder)
    start, end = t.token_to_id("<|endoftext|>"), t.token_to_id("<|im_end|>")
    config = {"num_attention_heads": 4, "max_position_embeddings": 32768}
    config |= {"rope_parameters": _QWEN_ROPE, "tie_word_embeddings": tied}
    config |= {
        "vocab_size": t.get_vocab_size() + 37,
        "bos_token_id": start,
        "eos_token_id": end,
    }
    sampling = {
        "bos_token_id": start,
        "pad_token_id": start,
        "eos_token_id": [end, start],
    }
    sampling |= {
        "repetition_penalty": 1.1,
        "temperature": 0.7,
        "top_p": 0.8,
        "top_k": 20,
    }
    known = t.get_vocab_size() if sizes else 0
    whole = {**_CHAT, **config, **sizes}
    _save_chat(folder, "Qwen2", whole, sampling, seed=1, device=device, tokens=known)


def tiny_qwen3(folder: Path, tied: bool = False) -> None:
    "A Qwen3: norms of queries and keys, no biases, and a template by which it thinks or not."
    t = _qwen_tokenizer(folder, QWEN3_CHAT)
    start, end = t.token_to_id("<|endoftext|>"), t.token_to_id("<|im_end|>")
    config = {
        "num_attention_heads": 4,
        "head_dim": 32,
        "max_position_embeddings": 40960,
    }
    config |= {"rope_parameters": _QWEN_ROPE, "tie_word_embeddings": tied}
    config |= {
        "vocab_size": t.get_vocab_size() + 37,
        "bos_token_id": start,
        "eos_token_id": end,
    }
    sampling = {
        "bos_token_id": start,
        "pad_token_id": start,
        "eos_token_id": [end, start],
    }
    _save_chat(folder, "Qwen3", _CHAT | config, sampling | {"temperature": 0.6}, seed=4)


def teach(
    loaded,  # `models.local.Loaded`
    *chains: Sequence[int],  # tokens; none goes on in two ways
) -> None:
    "Have a tiny model write chains of tokens: what it writes next hangs on its last token alone."
    import torch

    with torch.no_grad():
        for layer in loaded.model.model.layers:
            layer.self_attn.o_proj.weight.zero_(), layer.mlp.down_proj.weight.zero_()
        rows, head = (
            loaded.model.get_input_embeddings().weight,
            loaded.model.lm_head.weight,
        )
        head.zero_()
        for before, after in (
            pair for chain in chains for pair in zip(chain, chain[1:])
        ):
            head[after] += rows[before] / rows[before].norm()


_XLMR = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
_XLMR |= {
    "intermediate_size": 128,
    "max_position_embeddings": 8194,
    "type_vocab_size": 1,
}
_XLMR |= {
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "layer_norm_eps": 1e-5,
}
_PARTS = [
    {
        "idx": i,
        "name": str(i),
        "path": path,
        "type": f"sentence_transformers.models.{kind}",
    }
    for i, (path, kind) in enumerate(
        [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    )
]
_POOLING = {"word_embedding_dimension": 64, "pooling_mode_cls_token": True}
_POOLING |= {
    f"pooling_mode_{m}": False
    for m in ("mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
}


def tiny_bge_m3(folder: Path, sizes: Mapping[str, object] = {}) -> None:
    "A BGE-M3: XLM-R, the first token's vector, normalized; weights in pytorch_model.bin."
    import torch
    from transformers import XLMRobertaConfig, XLMRobertaModel

    t = _xlmr_tokenizer(folder)
    with _seeded(2):
        config = {**_XLMR, "vocab_size": t.get_vocab_size(), **sizes}
        model = XLMRobertaModel(
            XLMRobertaConfig(**config, architectures=["XLMRobertaModel"])
        )
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    model.config.dtype = torch.float32
    model.config.save_pretrained(folder)
    _as_published(folder)
    versions = {"sentence_transformers": "2.2.2", "transformers": "4.33.0"}
    versions["pytorch"] = "2.1.2+cu121"
    for name, what in (
        ("modules.json", _PARTS),
        ("sentence_bert_config.json", {"max_seq_length": 8192, "do_lower_case": False}),
        ("config_sentence_transformers.json", {"__version__": versions}),
        (
            "1_Pooling/config.json",
            _POOLING | {"word_embedding_dimension": config["hidden_size"]},
        ),
    ):
        write_json(folder / name, what)


def tiny_bge_reranker(folder: Path, sizes: Mapping[str, object] = {}) -> None:
    "A BGE reranker: XLM-R that reads both texts, and one number."
    import torch
    from transformers import XLMRobertaConfig, XLMRobertaForSequenceClassification

    t = _xlmr_tokenizer(folder)
    own = {**_XLMR, "vocab_size": t.get_vocab_size(), **sizes}
    config = XLMRobertaConfig(**own, num_labels=1, dtype=torch.float32)
    with _seeded(3):
        model = XLMRobertaForSequenceClassification(config)
    model.save_pretrained(folder)
    _as_published(folder)


_NOMIC = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
_NOMIC |= {"num_hidden_layers": 2, "type_vocab_size": 2, "torch_dtype": "float32"}
_NOMIC |= {"model_type": "nomic_bert", "architectures": ["NomicBertModel"]}
_NOMIC_CODE = "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel"


def tiny_nomic(folder: Path) -> None:
    """A nomic-embed-text v1.5: rotary BERT, the mean of the vectors. Its configuration names code of its
    authors; transformers has the architecture itself, with the published sizes as its defaults."""
    import torch
    from safetensors.torch import save_file

    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t = bert_pieces(marks)
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), marks))
    about = {"mask_token": marks[-1], "model_max_length": 8192}
    _save_tokenizer(folder, t, "BertTokenizer", **names, **about)
    size, inner, vocabulary = 64, 128, t.get_vocab_size()
    shapes = {"embeddings.word_embeddings": (vocabulary, size)}
    shapes["embeddings.token_type_embeddings"] = (2, size)
    for n in range(_NOMIC["num_hidden_layers"]):
        shapes[f"encoder.layers.{n}.attn.Wqkv"] = (3 * size, size)
        shapes[f"encoder.layers.{n}.attn.out_proj"] = (size, size)
        shapes[f"encoder.layers.{n}.mlp.fc11"] = (inner, size)
        shapes[f"encoder.layers.{n}.mlp.fc12"] = (inner, size)
        shapes[f"encoder.layers.{n}.mlp.fc2"] = (size, inner)
    norms = ["emb_ln"]
    for n in range(_NOMIC["num_hidden_layers"]):
        norms += [f"encoder.layers.{n}.norm1", f"encoder.layers.{n}.norm2"]
    with _seeded(5):
        weights = {f"{name}.weight": torch.randn(s) / 8 for name, s in shapes.items()}
    for name in norms:
        weights |= {
            f"{name}.weight": torch.ones(size),
            f"{name}.bias": torch.zeros(size),
        }
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config = _NOMIC | {"auto_map": {"AutoModel": _NOMIC_CODE}}
    write_json(folder / "config.json", config | {"vocab_size": vocabulary})
    pooling = {"word_embedding_dimension": size, "pooling_mode_mean_tokens": True}
    pooling["pooling_mode_cls_token"] = False
    write_json(folder / "modules.json", _PARTS[:2])
    about = {"max_seq_length": 8192, "do_lower_case": False}
    write_json(folder / "sentence_bert_config.json", about)
    write_json(folder / "1_Pooling/config.json", pooling)


def bert_pieces(
    special: Sequence[str],  # the tokens of padding, unknown words, beginning and end
    size: int = 1500,  # tokens
):
    "A WordPiece tokenizer of the sample, as BERT's."
    from tokenizers import BertWordPieceTokenizer

    t = BertWordPieceTokenizer()
    how = {"vocab_size": size, "special_tokens": list(special)}
    t.train_from_iterator(sample_texts(), show_progress=False, **how)
    return t


TINY: dict[str, Callable[[Path], None]] = {  # hub name -> what writes it into a folder
    "meta-llama/Llama-3.1-8B-Instruct": tiny_llama,
    "NousResearch/Meta-Llama-3.1-8B-Instruct": tiny_llama,  # a mirror without a gate
    "meta-llama/Llama-3.2-3B-Instruct": lambda folder: tiny_llama(folder, tied=True),
    "Qwen/Qwen2.5-1.5B-Instruct": lambda folder: tiny_qwen(folder, tied=True),
    "Qwen/Qwen2.5-14B-Instruct": tiny_qwen,
    "Qwen/Qwen3-4B": lambda folder: tiny_qwen3(folder, tied=False),
    "BAAI/bge-m3": tiny_bge_m3,
    "nomic-ai/nomic-embed-text-v1.5": tiny_nomic,
    "BAAI/bge-reranker-v2-m3": tiny_bge_reranker,
}
_AROUND = {  # what lies beside a model and is not needed to load it
    "meta-llama": "original/params.json original/consolidated.00.pth LICENSE USE_POLICY.md",
    "Qwen": "LICENSE",
    "BAAI": "onnx/model.onnx imgs/figure.jpg colbert_linear.pt",
}


def make_tiny(
    folder: str | Path,
    names: Iterable[str] = tuple(TINY),  # of TINY
) -> dict[str, Path]:  # hub name -> its folder, folder/owner/name
    "Write tiny models where they are not there yet."
    made = {name: Path(folder) / name for name in names}
    for name, path in made.items():
        if (path / ".gitattributes").exists():
            continue  # written last
        TINY[name](path)
        around = _AROUND.get(name.split("/")[0], "").split()
        for extra in (*around, "README.md", ".gitattributes"):
            make_folder((path / extra).parent)
            (path / extra).write_text("Not needed to load the model.\n" * 40)
    return made


def with_tiny(
    settings: Settings,
    folder: str | Path,  # where make_tiny wrote them, or is to
) -> Settings:
    "The same settings with the tiny model in the place of each one that has one; the embedded ones stay."

    def local(spec: ModelSpec | None) -> ModelSpec | None:
        if not spec or spec.name not in TINY:
            return spec
        return replace(spec, name=str(make_tiny(folder, [spec.name])[spec.name]))

    roles = ("chat", "embedder", "reranker")
    return replace(settings, **{role: local(getattr(settings, role)) for role in roles})


def tiny_cache(
    folder: str | Path,  # where make_tiny wrote them, or is to
    cache: str | Path,  # made; for HF_HUB_CACHE
    names: Iterable[str] = tuple(TINY),
) -> Path:  # `cache`
    "Lay tiny models out as the hub's cache has them after a download."
    for name, path in make_tiny(folder, names).items():
        place = Path(cache) / f"models--{name.replace('/', '--')}"
        commit = digest(name, 40)
        (make_folder(place / "refs") / "main").write_text(commit)
        if not (there := place / "snapshots" / commit).exists():
            make_folder(there.parent) and there.symlink_to(path.resolve())
    return Path(cache)
