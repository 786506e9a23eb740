"""What a kernel family is: algorithms with axes, and a plan per lens for which axes to vary."""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Point = Mapping[str, str]
"""One value per axis of an algorithm."""


@dataclass(frozen=True, kw_only=True)
class Interface:
    """The operator's interface as a family needs it, taken from the brief."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    scalars: Mapping[str, Literal["double", "int64_t"]] = field(default_factory=dict)
    """Inputs that are Python scalars, with their C++ types."""
    reference: str = ""

    @property
    def tensors(self) -> tuple[str, ...]:
        """The inputs that are not scalars."""
        return tuple(name for name in self.inputs if name not in self.scalars)

    def constant(self, pattern: str, default: str) -> str:
        """Return the first group of `pattern` in the reference, for a constant written in it."""
        found = re.search(pattern, self.reference)
        return found.group(1) if found else default

    def parameters(self) -> str:
        """Return the parameter list of the C++ entry: inputs, then outputs."""
        inputs = [
            f"{self.scalars[name]} {name}" if name in self.scalars else f"const DLTensor* {name}"
            for name in self.inputs
        ]
        return ", ".join(inputs + [f"DLTensor* {name}" for name in self.outputs])


Dsl = Literal["cpp", "cuda", "triton", "torch", "numpy"]


@dataclass(frozen=True)
class _Form:
    """How candidates in a DSL are handed in."""

    language: str
    filename: str
    comment: str = "#"
    binding: str = ""
    destination_passing: bool = True


_FORMS: Mapping[Dsl, _Form] = {
    "cpp": _Form("cpp", "kernel.cpp", "//", "dlpack"),
    "cuda": _Form("cuda", "kernel.cu", "//", "dlpack"),
    "triton": _Form("triton", "kernel.py"),
    "torch": _Form("python", "kernel.py", destination_passing=False),
    "numpy": _Form("python", "kernel.py", destination_passing=False),
}


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """One way to compute the operator, with the choices it leaves open."""

    name: str
    dsl: Dsl
    layout: str
    """How the data is walked, as declared with a submission."""
    axes: Mapping[str, tuple[str, ...]]
    """The values of each axis, in an order in which neighbours are alike."""
    start: Point
    """A sensible first point; it has every axis."""
    render: Callable[[Point, Interface], str]
    """The source without its header line."""
    coupled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Axes whose values decide how good a value of the key axis is."""
    canonical: Callable[[Point], Point] = lambda point: point
    """Settles axes that have no effect at a point, so that equal code has one name."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What an agent under one lens does first, and which axes it then varies, in this order."""

    algorithm: str
    axes: tuple[str, ...]
    start: Point = field(default_factory=dict)
    """Differences from the algorithm's own start."""
    moves: tuple[tuple[str, str], ...] = ()
    """Axis values that this lens is curious about: tried before the neighbours are."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """All that the tuner knows about one operator class."""

    algorithms: Mapping[str, Algorithm]
    plans: Mapping[str, Plan]
    default: Plan

    def plan(self, lens: str) -> Plan:
        return self.plans.get(lens, self.default)

    def point(self, algorithm: str, changes: Point) -> Point:
        """Return a full, canonical point; unknown axes and values in `changes` are ignored."""
        known = self.algorithms[algorithm]
        point = dict(known.start)
        point |= {a: v for a, v in changes.items() if v in known.axes.get(a, ())}
        return dict(known.canonical(point))


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A rendered point, ready to submit."""

    algorithm: str
    point: Point
    source: str
    filename: str
    language: str
    binding: str
    destination_passing: bool
    cflags: tuple[str, ...]
    dsl: str
    layout: str

    @property
    def digest(self) -> str:
        """Name this very candidate: sent as request id, a restarted tuner never pays twice."""
        content = "\0".join([self.source, *self.cflags])
        return hashlib.sha256(content.encode()).hexdigest()[:32]


def render(family: Family, algorithm: str, point: Point, interface: Interface) -> Candidate:
    """Generate the source of one point, with a header line that `read_header` understands."""
    known = family.algorithms[algorithm]
    point = known.canonical(point)
    form = _FORMS[known.dsl]
    header = f"{form.comment} tuner: {tag(algorithm, point)}\n"
    return Candidate(
        algorithm=algorithm,
        point=dict(point),
        source=header + known.render(point, interface),
        filename=form.filename,
        language=form.language,
        binding=form.binding,
        destination_passing=form.destination_passing,
        cflags=flags(point) if known.dsl == "cpp" else (),
        dsl=known.dsl,
        layout=known.layout,
    )


def flags(point: Point) -> tuple[str, ...]:
    """Return the compiler flags a C++ point asks for."""
    chosen = [f"-{point.get('opt', 'O3')}"]
    target = point.get("target", "generic")
    if target != "generic":
        chosen.append(f"-march={target}")
    if point.get("fastmath") == "yes":
        chosen.append("-ffast-math")
    return tuple(chosen)


def tag(algorithm: str, values: Point) -> str:
    """Write an algorithm and some axis values as one line that machines read too."""
    return " ".join([f"algorithm={algorithm}", *(f"{k}={v}" for k, v in sorted(values.items()))])


def read_tag(text: str) -> dict[str, str]:
    """Read what `tag` wrote; the key `algorithm` is among the others."""
    return dict(re.findall(r"([a-z_]+)=([\w.-]+)", text))


def read_header(source: str) -> tuple[str, Point] | None:
    """Return the algorithm and point of a generated source, None for one written by others."""
    first, _, _ = source.partition("\n")
    found = re.fullmatch(r"(?://|#) tuner: (.*)", first.strip())
    if found is None:
        return None
    values = read_tag(found.group(1))
    algorithm = values.pop("algorithm", "")
    return (algorithm, values) if algorithm else None
