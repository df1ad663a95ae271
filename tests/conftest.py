"""The tests are offline, and each uses one thread: two busy threads on a busy core are slower than one. Hypothesis draws the same
examples on every machine, fewer of them where slow tests are left out, and takes as long as it takes."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")
for folder in (ROOT, ROOT / "tools"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from tests.support import volume  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    volume.is_whole = config.option.markexpr != "not slow"
    examples = 300 if volume.is_whole else 20
    settings.register_profile(
        "same everywhere",
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=examples,
    )
    settings.load_profile("same everywhere")
