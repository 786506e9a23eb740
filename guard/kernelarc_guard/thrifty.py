"""Judging a problem that leaves no room for copies: one runner, one draw, one answer at a time.

Imports torch. Every call is checked against the reference in its declared precision, piece by piece.
What cannot be done without copies is not done: rewriting inputs in part, values of other kinds,
looking for replays of older answers, comparing two calls bit by bit.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import torch

from kernelarc_guard.faults import SolutionFault
from kernelarc_guard.inputs import Value, make_inputs
from kernelarc_guard.problem import Problem, ProblemError
from kernelarc_guard.tolerance import Comparison, compare, mode_of

if TYPE_CHECKING:
    from kernelarc_guard.arm import Arm
    from kernelarc_guard.bench import Bench
    from kernelarc_guard.draws import Draw
    from kernelarc_guard.oracle import Oracle

Outputs = dict[str, torch.Tensor]
NOTE: Final = (
    "judged_thriftily: the device has no room for copies: one runner at a time, whole new inputs in "
    "every call, answers in the declared precision"
)
_PIECE: Final = 1 << 26
_SEEDS: Final = (11, 12)


def refuse_determinism(problem: Problem) -> None:
    """Raise ProblemError where bits of two calls are to be compared, for which there is no room."""
    if problem.definition.kernelarc.determinism == "bitwise":
        raise ProblemError(
            "kernelarc.determinism: bitwise needs a second copy of the outputs, which the device's "
            "memory does not hold"
        )


def check_problem_thriftily(problem: Problem, oracle: "Oracle") -> None:
    """Raise ProblemError where zeros pass, or where other inputs give the same answer."""
    refuse_determinism(problem)
    workload = problem.workloads[0]

    def answer(seed: int) -> Outputs:
        inputs: Mapping[str, Value] = make_inputs(
            problem.definition, workload, seed, folder=problem.folder, device=oracle.place
        )
        return oracle.reference_outputs(workload, inputs)

    first = answer(_SEEDS[0])
    zeros = {
        name: torch.zeros((), dtype=one.dtype, device=one.device) for name, one in first.items()
    }
    required = problem.definition.required_outputs  # others prove nothing of an answer without
    spread = {name: zeros[name].expand(first[name].shape) for name in required}
    if judged(problem, 0, spread, first, refuse_zeros=False).ok:
        raise ProblemError("workloads: tolerance: accepts outputs that are all zero")
    second = answer(_SEEDS[1])
    if judged(problem, 0, {name: second[name] for name in required}, first).ok:
        raise ProblemError(
            "workloads: other inputs never change the outputs by more than the tolerance"
        )


def probe(bench: "Bench", arm: "Arm", workload: int) -> int:
    """Make and check some calls; return the nanoseconds of the last. Raises SolutionFault."""
    draw = bench.drawer.draw(workload)
    checked_call(bench, arm, workload, draw)
    checked_call(bench, arm, workload, draw)
    del draw
    checked_call(bench, arm, workload, renew=True)
    return checked_call(bench, arm, workload)


def checked_call(
    bench: "Bench",
    arm: "Arm",
    workload: int,
    draw: "Draw | None" = None,
    *,
    evict: bool = True,
    renew: bool = False,
) -> int:
    """Make one call, on new inputs unless a draw is given, and return its nanoseconds."""
    draw = draw or bench.drawer.draw(workload)
    elapsed = arm.call(workload, draw, evict=evict, renew=renew)
    outputs = arm.outputs(workload)
    expected = bench.oracle.reference_outputs(bench.problem.workloads[workload], draw.inputs)
    result = judged(bench.problem, workload, outputs, expected)
    bench.remember(workload, result, draw.kind)
    if not result.ok:
        raise SolutionFault(result.reason or "wrong_result", result.detail, workload)
    return elapsed


def times_alone(
    bench: "Bench", arm: "Arm", blocks: int, tick: Callable[[], None]
) -> list[list[list[int]]]:
    """Return the nanoseconds of one arm's calls, `[block][workload][call]`."""
    for workload in bench.drawer.indices:
        for _ in range(bench.schedule.warmup_calls):
            checked_call(bench, arm, workload, evict=False)
    measured = []
    for _ in range(blocks):
        calls = range(bench.schedule.calls)
        measured.append(
            [[checked_call(bench, arm, w) for _ in calls] for w in bench.drawer.indices]
        )
        tick()
    return measured


def judged(
    problem: Problem,
    workload: int,
    actual: Outputs,
    expected: Outputs,
    *,
    refuse_zeros: bool = True,
) -> Comparison:
    """Compare piece by piece, so that nothing of the outputs' size is made beside them."""
    definition, tolerance = problem.definition, problem.workloads[workload].tolerance
    needed = mode_of(definition).ratio(tolerance)
    # What one piece may not decide: how many elements of a whole output match.
    lenient = tolerance.model_copy(update={"required_matched_ratio": 0.0})
    worst: Comparison | None = None
    absolute = relative = 0.0
    ratio = 1.0
    empty = {name: one.new_empty(0) for name, one in actual.items()}
    for name in definition.answered(actual):
        matched, count = 0.0, 0
        for begin, got, wanted in _pieces(actual[name], expected[name]):
            result = compare(
                empty | {name: got},
                empty | {name: wanted},
                lenient if needed < 1 else tolerance,
                definition,
                refuse_zeros=refuse_zeros,
            )
            absolute = max(absolute, result.max_absolute_error)
            relative = max(relative, result.max_relative_error)
            matched += result.matched_ratio * got.numel()
            count += got.numel()
            if not result.ok and worst is None:
                worst = _moved(result, name, begin)
        share = matched / count if count else 1.0
        ratio = min(ratio, share)
    if worst is None and ratio < needed:
        worst = Comparison(
            ok=False,
            reason="wrong_result",
            detail=f"{100 * ratio:.4f} % of the elements match; {100 * needed:.4f} % must",
        )
    reason = worst.reason if worst else None
    return Comparison(
        ok=worst is None,
        reason=reason,
        max_absolute_error=absolute,
        max_relative_error=relative,
        matched_ratio=ratio,
        detail=worst.detail if worst else "",
    )


def _pieces(
    actual: torch.Tensor, expected: torch.Tensor
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Yield where a piece begins, and the piece of both; an expanded tensor is taken as it is."""
    if actual.shape != expected.shape:
        raise ValueError(f"shape {list(actual.shape)} against {list(expected.shape)}")
    wanted = expected.reshape(-1)
    spread = actual.numel() > 1 and not any(actual.stride())
    got = actual.as_strided((actual.numel(),), (0,)) if spread else actual.reshape(-1)
    for begin in range(0, wanted.numel(), _PIECE):
        yield begin, got[begin : begin + _PIECE], wanted[begin : begin + _PIECE]


def _moved(result: Comparison, name: str, begin: int) -> Comparison:
    told = f"{result.detail} (counted in output {name} from its element {begin} on)"
    return Comparison(ok=False, reason=result.reason, detail=told)
