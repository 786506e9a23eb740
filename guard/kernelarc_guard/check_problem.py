"""Is a problem one that can be judged at all? (imports torch)"""

import math
import os
from collections.abc import Mapping
from typing import Final

import torch

from kernelarc_guard.constants import constant_inputs, equal_inputs
from kernelarc_guard.definition import Definition
from kernelarc_guard.dtypes import torch_dtype
from kernelarc_guard.formats.needs import with_need
from kernelarc_guard.forms import FormError
from kernelarc_guard.inputs import InputError, Value, make_inputs, redrawn
from kernelarc_guard.oracle import Answer, Oracle, OracleError
from kernelarc_guard.problem import Problem, ProblemError
from kernelarc_guard.room import room_for
from kernelarc_guard.sampling import LEAST, Pool
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
        _follows_its_probabilities(problem, oracle, workloads[0])
        notes = _agrees_with_itself(problem, oracle, workloads[0])
        _refuses_zeros(problem, oracle, workloads)
        notes += _depends_on_inputs(problem, oracle, workloads)
        notes += _constant_inputs(problem, oracle, workloads[0])
    except (OracleError, InputError) as error:
        said = with_need(error, problem.definition.reference, place)
        raise ProblemError(f"definition.json: {said}") from None
    return [*oracle.observations, *notes]


def _tried_thriftily(problem: Problem, place: str) -> list[str]:
    try:
        oracle = Oracle(problem, place)
        if oracle.form is not None:
            raise ProblemError("kernelarc.compared_as: not with tensors as large as this device")
        check_problem_thriftily(problem, oracle)
    except (OracleError, InputError) as error:
        said = with_need(error, problem.definition.reference, place)
        raise ProblemError(f"definition.json: {said}") from None
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
    keys = problem.definition.kernelarc.model_copy(update={"tolerance": "sol"})

    def lenient(expected: Mapping[str, torch.Tensor]) -> Definition:
        return oracle.compared(expected).model_copy(update={"kernelarc": keys})

    notes: list[str] = []
    for seed in _SEEDS:
        inputs = _inputs(problem, oracle, workload, seed)
        answer = oracle.answer(workload, inputs)
        declared, expected = _formed(answer, answer.declared), answer.expected
        result = compare(declared, expected, workload.tolerance, lenient(expected))
        if not result.ok:
            raise ProblemError(
                f"workload {workload.uuid}: tolerance: rejects the reference itself in its "
                f"declared precision: {result.detail}"
            )
        result = compare(declared, expected, workload.tolerance, oracle.compared(expected))
        if not result.ok and not notes:
            notes.append(
                f"workload {workload.uuid}: the reference itself would not pass tolerance mode "
                f"{problem.definition.kernelarc.tolerance}: {result.detail}"
            )
    return notes


def _follows_its_probabilities(problem: Problem, oracle: Oracle, workload: Workload) -> None:
    """Refuse a reference whose random answers are not those that its definition promises."""
    sampling = oracle.form and oracle.form.sampling
    if not sampling:
        return
    pool = Pool()
    for seed in _seeds(oracle):
        inputs = _inputs(problem, oracle, workload, seed)
        declared = oracle.reference_outputs(workload, inputs)
        said = ""
        if not bool(sampling.legal(inputs, declared)["legal"].all()):
            said = "draws a token that may not be drawn"
        said = said or pool.add(
            sampling.places(inputs, declared, torch.Generator().manual_seed(seed))
        )
        if said:
            raise ProblemError(f"workload {workload.uuid}: the reference itself: {said}")


def _refuses_zeros(problem: Problem, oracle: Oracle, workloads: list[Workload]) -> None:
    for workload in workloads:
        pool = Pool()
        for seed in _seeds(oracle):
            inputs = _inputs(problem, oracle, workload, seed)
            answer = oracle.answer(workload, inputs)
            expected = answer.expected
            # What may be left out proves nothing of an answer without it.
            names = problem.definition.required_outputs
            zeros = {name: torch.zeros_like(answer.declared[name]) for name in names}
            # Without the rule against zeros: a constant of 1e-30 would pass where zeros would.
            if not compare(
                _formed(answer, zeros),
                expected,
                workload.tolerance,
                oracle.compared(expected),
                refuse_zeros=False,
            ).ok or _misdrawn(oracle, inputs, zeros, pool):
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
            answer, odd = oracle.answer(workload, first), oracle.answer(workload, other)
            # Another answer to these inputs, which for random ones only many calls could show.
            given = odd.expected if oracle.form is None else _formed(answer, odd.declared)
            given = {name: given[name] for name in _required(oracle, given)}
            expected = answer.expected
            definition = oracle.compared(expected)
            if not compare(given, expected, workload.tolerance, definition).ok or _samples(oracle):
                return []
    if not drawn_again:
        return ["fixed_inputs: no workload gives other inputs for another seed"]
    raise ProblemError(
        "workloads: other inputs never change the outputs by more than the tolerance"
    )


def _formed(answer: Answer, outputs: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
    try:
        return answer.formed(outputs)
    except FormError:
        # What has no form agrees with nothing.
        return {
            name: torch.full_like(one, 77) if one.dtype is not torch.bool else ~one
            for name, one in answer.expected.items()
        }


def _required(oracle: Oracle, given: Mapping[str, torch.Tensor]) -> list[str]:
    """Return which tensors every answer has: those of a form, or the outputs that are not optional."""
    return list(given) if oracle.form is not None else oracle.definition.required_outputs


def _samples(oracle: Oracle) -> bool:
    return oracle.form is not None and oracle.form.sampling is not None


def _seeds(oracle: Oracle) -> range:
    """Return the seeds of the draws that zeros are tried on: of random answers one says little."""
    return range(_SEEDS[0], _SEEDS[0] + (LEAST if _samples(oracle) else 1))


def _misdrawn(
    oracle: Oracle, inputs: dict[str, Value], outputs: Mapping[str, torch.Tensor], pool: Pool
) -> bool:
    """Say whether random answers, with those in the pool, do not follow their probabilities."""
    sampling = oracle.form and oracle.form.sampling
    if not sampling:
        return False
    return bool(pool.add(sampling.places(inputs, outputs, torch.Generator().manual_seed(0))))


def _constant_inputs(problem: Problem, oracle: Oracle, workload: Workload) -> list[str]:
    """Note inputs with the same values in every draw that nothing varies: a kernel may leave them out."""
    draws = [_inputs(problem, oracle, workload, seed) for seed in _SEEDS]
    return [
        f"constant_input: {name} has the same values for every seed, and no others are known to be"
        " legal: a kernel that relies on them is not refused"
        for name in constant_inputs(problem.definition, workload, draws)
    ]
