"""Faults planted in the nodes of a system: what the steps of a kind put into the state instead."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mtrag_nb.core.record import Step
from mtrag_nb.runs.oracles import last_step, put_instead
from mtrag_nb.systems.stages import Toolbox
from mtrag_nb.systems.system import Node, System


@dataclass(frozen=True)
class Plant:
    "What the steps of a kind put into the state instead."

    name: str
    "Becomes a part of the system's name."
    kind: type[Step]
    change: Callable[[Mapping[str, object], Step, Toolbox], dict]
    "State behind the step, step, tools -> keys that change; {}: none."


def planted(system: System, *plants: Plant) -> System:
    "The system with something planted in it."

    def around(name: str, node: Node, tools: Toolbox) -> Node:
        def run(state: Mapping[str, object]) -> dict:
            update = node(state)
            for plant in plants:
                step = last_step(update, plant.kind)
                if step:
                    changes = plant.change({**state, **update}, step, tools)
                    update = put_instead(update, state, changes, tools)
            return update

        return run

    names = "+".join(plant.name for plant in plants)
    return system.with_around(f"planted:{names}", around)
