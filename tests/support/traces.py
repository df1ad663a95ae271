"""Which words stand anywhere in the files of a folder: what was removed from a library must not."""

from collections.abc import Iterable
from pathlib import Path


def traces(
    folder: str | Path,
    needles: Iterable[str | bytes],  # a text is looked for as UTF-8 and as UTF-16
) -> list[str | bytes]:
    "Those of these that stand anywhere in the bytes of a folder's files."
    coded = {
        n: [n] if isinstance(n, bytes) else [n.encode(), n.encode("utf-16-le")]
        for n in needles
    }
    found: set[str | bytes] = set()
    for path in (p for p in Path(folder).rglob("*") if p.is_file()):
        data = (
            path.read_bytes().rstrip(b"\0") + b"\0"
        )  # the engine's files end in zeros
        found |= {n for n, codes in coded.items() if any(c in data for c in codes)}
    return [n for n in coded if n in found]
