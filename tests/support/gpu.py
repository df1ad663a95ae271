"GPUs that are not there."

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pretended(
    *gpus: tuple,  # (name, compute capability, free bytes, bytes in all) of each
) -> Iterator[None]:
    "For tests: within it, torch sees these GPUs. Nothing can be computed on them."
    from unittest.mock import patch

    def number(device):
        return int(str(device).partition(":")[2] or 0)

    said = {
        "is_available": lambda: bool(gpus),
        "get_arch_list": lambda: ["sm_70", "sm_75", "sm_80"],
        "device_count": lambda: len(gpus),
        "memory_reserved": lambda device: 0,
        "memory_allocated": lambda device: 0,
        "mem_get_info": lambda device: gpus[number(device)][2:],
        "get_device_name": lambda device=0: gpus[number(device)][0],
        "get_device_capability": lambda device: gpus[number(device)][1],
    }
    import torch

    with patch.multiple(torch.cuda, **said):
        yield
