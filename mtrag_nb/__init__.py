"A workbench for multi-turn RAG that corrects itself. The names below are loaded when they are first used; nbdev keeps the version."

__version__ = "2.1.0"

_PLACES = {  # name -> where it is; with a colon behind it: the room itself
    "SELF_CRAG": "systems.self_crag",
    "NCL": "systems.ncl",
    "AGENTS": "systems.agents",
    "NEXUS": "systems.nexus",
    "load_models": "systems.outside",
    "build_index": "search.ingest",
    "read_benchmark": "data.mtrag",
    "Dialogue": "runs.run",
    "run": "app.run",
    "Run": "core.run_folder",
    "judge": "app.measure",
    "evaluate": "app.evaluate",
    "blame": "evaluation.blame",
    "replay": "app.forks",
    "report": "app.pages",
    "CaseBrowser": "show.browser",
    "figures": "show.figures:",
}
__all__ = list(_PLACES)


def __getattr__(name: str) -> object:
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
