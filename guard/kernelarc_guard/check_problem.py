"""Is a problem one that can be judged at all? (imports torch)"""

import math
import os
from typing import Final

import torch

from kernelarc_guard.constants import constant_inputs, equal_inputs
from kernelarc_guard.dtypes import torch_dtype
from kernelarc_guard.inputs import InputError, Value, make_inputs, redrawn
from kernelarc_guard.oracle import Oracle, OracleError
from kernelarc_guard.problem import Problem, ProblemError
from kernelarc_guard.room import room_for
from kernelarc_guard.thrifty import NOTE, check_problem_thriftily
from kernelarc_guard.tolerance import compare
from kernelarc_guard.workload import Workload

_SEEDS: Final = (11, 12, 13)


def check_problem(
    problem: Problem, place: str = "cpu", memory_bytes: int | None = None
) -> list[str]:
    """Raise ProblemError for a problem that would accept nonsense; return what else was seen.

    Refused: a reference that fails, one that its own tolerance rejects, a problem whose every
    workload accepts zeros, and one whose outputs do not depend on its inputs. Workloads are tried
    from the smallest on, and only until each question has its good answer. The reference runs on
    the torch device `place`, which has `memory_bytes` (None: what this machine has).
    """
    if memory_bytes is None:
        _fits(problem, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    elif room_for(problem, memory_bytes, 2).thrifty:
        return _tried_thriftily(problem, place)
    workloads = by_size(problem)
    if not workloads:
        raise ProblemError("workloads: every output is empty; expected one that is not")
    try:
        oracle = Oracle(problem, place)
        notes = _agrees_with_itself(problem, oracle, workloads[0])
        _refuses_zeros(problem, oracle, workloads)
        notes += _depends_on_inputs(problem, oracle, workloads)
        notes += _constant_inputs(problem, oracle, workloads[0])
    except (OracleError, InputError) as error:
        raise ProblemError(f"definition.json: {error}") from None
    return [*oracle.observations, *notes]


def _tried_thriftily(problem: Problem, place: str) -> list[str]:
    try:
        oracle = Oracle(problem, place)
        check_problem_thriftily(problem, oracle)
    except (OracleError, InputError) as error:
        raise ProblemError(f"definition.json: {error}") from None
    return [*oracle.observations, NOTE]


def _fits(problem: Problem, have: int) -> None:
    """Refuse what the device cannot hold: the kernel would end the guard for it, not say so.

    Both arms keep buffers of all workloads; the oracle works on one, in float64, with copies.
    """
    definition = problem.definition
    total, largest, named = 0, 0, ""
    for workload in problem.workloads:
        resolved = definition.resolve(workload.axes)
        sides = (
            (definition.inputs, definition.input_shape),
            (definition.outputs, definition.output_shape),
        )
        elements = nbytes = 0
        for specs, shape_of in sides:
            for name, spec in specs.items():
                count = math.prod(shape_of(name, resolved) or ())
                elements += count
                nbytes += count * torch_dtype(spec.dtype).itemsize
        total += 3 * nbytes
        if elements > largest:
            largest, named = elements, workload.uuid
    need = total + 2 * 8 * largest
    if need > have:
        raise ProblemError(
            f"workload {named}: the tensors of all workloads need about {need >> 20} MiB for two "
            f"arms and the check; the device has {have >> 20} MiB"
        )


def by_size(problem: Problem) -> list[Workload]:
    """Return the workloads whose outputs are not all empty, the smallest first."""
    definition = problem.definition

    def sizes(workload: Workload) -> tuple[int, int]:
        resolved = definition.resolve(workload.axes)
        inputs = [definition.input_shape(name, resolved) or () for name in definition.inputs]
        outputs = [definition.output_shape(name, resolved) or () for name in definition.outputs]
        return sum(map(math.prod, outputs)), sum(map(math.prod, inputs))

    sized = [(sizes(workload), place) for place, workload in enumerate(problem.workloads)]
    filled = sorted((sum(size), place) for size, place in sized if size[0])
    return [problem.workloads[place] for _, place in filled]


def _inputs(problem: Problem, oracle: Oracle, workload: Workload, seed: int) -> dict[str, Value]:
    return make_inputs(
        problem.definition, workload, seed, folder=problem.folder, device=oracle.place
    )


def _agrees_with_itself(problem: Problem, oracle: Oracle, workload: Workload) -> list[str]:
    """Compare the declared precision with float64, by the share the workload itself requires."""
    definition = problem.definition
    keys = definition.kernelarc.model_copy(update={"tolerance": "sol"})
    lenient = definition.model_copy(update={"kernelarc": keys})
    notes: list[str] = []
    for seed in _SEEDS:
        inputs = _inputs(problem, oracle, workload, seed)
        declared = oracle.reference_outputs(workload, inputs)
        expected = oracle.expected(workload, inputs)
        result = compare(declared, expected, workload.tolerance, lenient)
        if not result.ok:
            raise ProblemError(
                f"workload {workload.uuid}: tolerance: rejects the reference itself in its "
                f"declared precision: {result.detail}"
            )
        result = compare(declared, expected, workload.tolerance, definition)
        if not result.ok and not notes:
            notes.append(
                f"workload {workload.uuid}: the reference itself would not pass tolerance mode "
                f"{definition.kernelarc.tolerance}: {result.detail}"
            )
    return notes


def _refuses_zeros(problem: Problem, oracle: Oracle, workloads: list[Workload]) -> None:
    for workload in workloads:
        expected = oracle.expected(workload, _inputs(problem, oracle, workload, _SEEDS[0]))
        zeros = {name: torch.zeros_like(one) for name, one in expected.items()}
        # Without the rule against zeros: a constant of 1e-30 would pass where zeros would.
        if not compare(
            zeros, expected, workload.tolerance, problem.definition, refuse_zeros=False
        ).ok:
            return
    raise ProblemError("workloads: tolerance: accepts outputs that are all zero on every workload")


def _depends_on_inputs(problem: Problem, oracle: Oracle, workloads: list[Workload]) -> list[str]:
    """Return what to note; ProblemError where other inputs never give another answer."""
    drawn_again = False
    for workload in workloads:
        if not redrawn(problem.definition, workload):
            continue
        first, *others = (_inputs(problem, oracle, workload, seed) for seed in _SEEDS)
        for other in others:
            if equal_inputs(first, other):
                continue
            drawn_again = True
            if not compare(
                oracle.expected(workload, other),
                oracle.expected(workload, first),
                workload.tolerance,
                problem.definition,
            ).ok:
                return []
    if not drawn_again:
        return ["fixed_inputs: no workload gives other inputs for another seed"]
    raise ProblemError(
        "workloads: other inputs never change the outputs by more than the tolerance"
    )


def _constant_inputs(problem: Problem, oracle: Oracle, workload: Workload) -> list[str]:
    """Note inputs with the same values in every draw that nothing varies: a kernel may leave them out."""
    draws = [_inputs(problem, oracle, workload, seed) for seed in _SEEDS]
    return [
        f"constant_input: {name} has the same values for every seed, and no others are known to be"
        " legal: a kernel that relies on them is not refused"
        for name in constant_inputs(problem.definition, workload, draws)
    ]
