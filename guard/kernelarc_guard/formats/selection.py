"""Which workloads of a long list are judged; light."""

import math
from collections.abc import Sequence

from kernelarc_guard.definition import Definition
from kernelarc_guard.workload import Workload


def elements(definition: Definition, workload: Workload) -> int:
    """Return the number of elements of all inputs and outputs, a measure of size."""
    resolved = definition.resolve(workload.axes)
    shapes = [
        *(definition.input_shape(name, resolved) for name in definition.inputs),
        *(definition.output_shape(name, resolved) for name in definition.outputs),
    ]
    return sum(math.prod(shape) for shape in shapes if shape is not None)


def select(definition: Definition, workloads: Sequence[Workload], most: int) -> list[Workload]:
    """Return at most `most` of the workloads, in file order; all of them where there are no more.

    What `kernelarc.weights` counts comes first. Of the others, ordered by size, the smallest, the
    largest and those evenly between are taken. ValueError where more than `most` have a weight.
    """
    if len(workloads) <= most:
        return list(workloads)
    weights = definition.kernelarc.weights or {}
    counted = [i for i, one in enumerate(workloads) if weights.get(one.uuid, 0.0) > 0]
    if len(counted) > most:
        raise ValueError(
            f"kernelarc.weights: {len(counted)} workloads have a weight; at most {most} are judged"
        )
    others = [i for i in range(len(workloads)) if i not in set(counted)]
    others.sort(key=lambda i: (elements(definition, workloads[i]), i))
    room = most - len(counted)
    step = (len(others) - 1) / max(1, room - 1)
    spread = {others[round(k * step)] for k in range(room)}
    return [workloads[i] for i in sorted({*counted, *spread})]
