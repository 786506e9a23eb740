"""The script of a whole agent: brief, lens, memory, a REJECT, a kernel, its verdict, a conclusion, the board."""

import sys
from collections.abc import Generator
from typing import Any, Final

from benchmarks.scripted_model.story import Answer, Call, Story
from kernelarc_mcp.data import data_dir

sys.path.insert(0, str(data_dir("clients")))

from kernelfamilies.catalogue import family_for
from kernelfamilies.family import Candidate, render
from tuning.agent import interface_of

ATTEMPTS: Final = 2
FIRST_WAIT: Final = 1.0
"""Seconds of the first call: shorter than any judgement, so that it always ends with a ticket."""


def optimiser(number: int) -> Story:
    """Return the script of agent `number`: its kernels are like no other agent's."""

    def story() -> Generator[Call, Answer, None]:
        brief = yield Call("get_brief")
        yield Call("get_strategy_lens")
        yield Call("read_memory")
        kernel = kernel_for(brief, number)
        yield from _judged(kernel, number, "broken", f"{kernel.source}\nint broken_{number}( ;\n")
        view = yield from _judged(kernel, number, "kernel", kernel.source)
        won = view.get("verdict") in ("KEEP", "ACCEPT")
        yield Call(
            "write_conclusion",
            {
                "kind": "win" if won else "trap",
                "summary": f"{kernel.algorithm} as agent {number} wrote it: {view.get('verdict')}",
                "lesson": f"{kernel.algorithm} with {kernel.point} was {view.get('reason')} at "
                f"{view.get('speedup')} times the record's speed.",
                "evidence": view.get("ticket", "none"),
            },
        )
        yield Call("view_leaderboard")

    return story


def kernel_for(brief: Answer, number: int) -> Candidate:
    """Return a real kernel for the brief's problem, another one for each number below 16."""
    interface = interface_of(brief)
    family = family_for(brief["problem"], list(interface.inputs), list(interface.outputs))
    if family is None:
        raise ValueError(f"there is no kernel family for {brief['problem']!r}")
    names = [name for name, known in family.algorithms.items() if known.dsl == "cpp"]
    algorithm = names[number % len(names)]
    axes = family.algorithms[algorithm].axes
    axis = next(name for name, values in axes.items() if len(values) > 2)
    value = axes[axis][number // len(names) % len(axes[axis])]
    return render(family, algorithm, family.point(algorithm, {axis: value}), interface)


def _judged(
    kernel: Candidate, number: int, name: str, source: str
) -> Generator[Call, Answer, Answer]:
    arguments: dict[str, Any] = {
        "source": source,
        "summary": f"{name}: {kernel.algorithm} by agent {number}",
        "filename": kernel.filename,
        "language": kernel.language,
        "binding": kernel.binding,
        "destination_passing": kernel.destination_passing,
        "cflags": list(kernel.cflags),
        "algorithm": kernel.algorithm,
        "dsl": kernel.dsl,
        "layout": kernel.layout,
        "model": "scripted",
        "request_id": f"{name}-{number}",
        "wait_seconds": FIRST_WAIT,
    }
    view = yield Call("submit_candidate", arguments)
    turn = 0
    while view.get("state") in ("queued", "judging"):
        turn += 1
        view = yield Call("wait_submission", {"ticket": view["ticket"], "turn": turn})
    return view
