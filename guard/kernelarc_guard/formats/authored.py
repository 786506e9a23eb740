"""What a problem is made of that somebody has only as code: the request and the answer; light."""

from pydantic import Field, JsonValue

from kernelarc_guard.model import Model

Scalar = bool | int | float


class Request(Model):
    """A function or a KernelBench-style module to make a problem of."""

    source: str = Field(min_length=1)
    """`module:function`, `file.py:function`, or a module with Model, get_inputs, get_init_inputs."""
    folder: str
    """Where the problem is written; it must not exist."""
    place: str
    """The directory that modules and files are looked for in."""
    name: str = ""
    """Of the problem; empty: the function's or the file's."""
    op_type: str = ""
    shapes: dict[str, list[str]] = {}
    """Tensor parameter -> lengths and axis names."""
    dtypes: dict[str, str] = {}
    """Tensor parameter -> dtype; `*` is every other one."""
    scalars: dict[str, Scalar] = {}
    """Parameter -> the Python number that every workload passes."""
    constants: dict[str, JsonValue] = {}
    """Parameter -> value that belongs to the operator and is no input."""
    axes: list[dict[str, int]] = []
    """Lengths of the axes, one entry a workload."""
    draw: str = ""
    """Function of the module that makes the inputs: (axes, device) -> dict by name."""
    settings: dict[str, JsonValue] = {}
    """Module-level constants of a KernelBench-style module -> values to use instead."""
    evaluating: bool = False
    """Put a Model in evaluation mode (no dropout, running statistics of batch norms)."""
    max_atol: float | None = Field(default=None, ge=0)
    max_rtol: float | None = Field(default=None, ge=0)
    device: str = "cpu"
    """Torch device that references are tried on."""


class Answer(Model):
    """What became of a request; `error` is empty where the problem was written and can be graded."""

    error: str = ""
    name: str = ""
    notes: list[str] = []
