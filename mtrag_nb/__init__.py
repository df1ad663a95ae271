"A workbench for multi-turn RAG that corrects itself. The names below are loaded when they are first used; nbdev keeps the version."

import re
import sys
import warnings
from importlib.machinery import ModuleSpec, PathFinder
from types import SimpleNamespace

__version__ = "2.0.0"

_PLACES = {  # name -> where it is; with a colon behind it: the room itself
    "SELF_CRAG": "systems.self_crag",
    "NCL": "systems.ncl",
    "AGENTS": "systems.agents",
    "NEXUS": "systems.nexus",
    "load_models": "systems.outside",
    "build_index": "search.ingest",
    "read_benchmark": "data.mtrag",
    "Dialogue": "runs.run",
    "run": "app.cli",
    "Run": "core.record",
    "judge": "app.evaluate",
    "evaluate": "app.evaluate",
    "blame": "evaluate.blame",
    "replay": "app.evaluate",
    "report": "app.evaluate",
    "CaseBrowser": "show.browser",
    "figures": "show.figures:",
}
__all__ = list(_PLACES)


def __getattr__(name):
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    from mtrag_nb.core.types import not_installed

    try:
        room, itself, _ = _PLACES[name].partition(":")
        module = importlib.import_module(f"{__name__}.{room}")
    except ModuleNotFoundError as e:
        if e.name.startswith(__name__):
            raise
        raise not_installed([e.name]) from None
    return module if itself else getattr(module, name)


def __dir__():
    return sorted({*globals(), *__all__})


class _Moved:
    "Finds the rooms that names of 1.0.0 left or that are gone, and lets them answer for these names."

    @staticmethod
    def find_spec(name, path=None, target=None):
        package, _, room = name.partition(".")
        if package != __name__ or room.count(".") != 1:
            return None
        from ._moved import MOVED

        if not any(f"{old}.".startswith(f"{room}.") for old in MOVED):
            return None
        gone = SimpleNamespace(create_module=lambda spec: None, exec_module=lambda module: None)
        spec = PathFinder.find_spec(name, path) or ModuleSpec(name, gone)
        fill = spec.loader.exec_module

        def exec_module(module):
            fill(module)
            module.__getattr__ = lambda wanted: _successor(name, wanted)

        spec.loader.exec_module = exec_module
        return spec


def _successor(room: str, name: str) -> object:
    "A name of 1.0.0 from where it is now, with a warning. Raises ImportError with its row of the table for one that went."
    from importlib import import_module

    from ._moved import MOVED

    old = room.partition(".")[2]
    new = "" if name.startswith("_") else MOVED.get(f"{old}.{name}") or MOVED.get(old)
    if not new:
        raise AttributeError(f"module {room!r} has no attribute {name!r}")
    for place, renamed in re.findall(r"`([a-z_]+\.[a-z_]+)(?:\.(\w+))?`", new):
        there = import_module(f"{__name__}.{place}")
        if hasattr(there, renamed or name):
            now = f"{there.__name__}.{renamed or name}"
            warnings.warn(f"{room}.{name} is {now} since 2.0", DeprecationWarning, stacklevel=3)
            return getattr(there, renamed or name)
    raise ImportError(f"{room}.{name} is gone since 2.0. In its place: {new}", name=room)


sys.meta_path.insert(0, _Moved)
