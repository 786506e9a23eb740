"""The policy stage: refuse, before anything runs, what no honest kernel needs; light.

Sources are parsed, never searched as text: Python, C++ and CUDA, and C++ and CUDA that Python hands to a
compiler. What is merely doubtful is noted; the build and the isolation decide about the rest.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from kernelarc_guard import pyast
from kernelarc_guard.cpp_doubts import CPP_DOUBTS
from kernelarc_guard.cpp_rules import CPP_RULES
from kernelarc_guard.cppnames import CppNames
from kernelarc_guard.definition import Definition
from kernelarc_guard.inline_sources import inline_sources
from kernelarc_guard.policy_doubts import DOUBTS, lower_precision
from kernelarc_guard.policy_process import DOUBTFUL
from kernelarc_guard.policy_rules import FORBIDDEN, Rule
from kernelarc_guard.pynames import Names
from kernelarc_guard.solution import NATIVE_SUFFIXES, Solution, SourceFile

_CPP_SUFFIXES = (
    *NATIVE_SUFFIXES,
    ".h",
    ".hh",
    ".hpp",
    ".hxx",
    ".cuh",
    ".inl",
    ".inc",
    ".ipp",
    ".tpp",
)


@dataclass(frozen=True)
class Finding:
    """One place in a source that a rule refuses."""

    file: str
    line: int
    rule: str
    message: str

    @property
    def reason(self) -> str:
        """Return the reason code of a rejection for this finding."""
        return "policy_syntax" if self.rule in {"syntax", "empty"} else "policy_forbidden"


@dataclass
class Examined:
    """What the policy says about a solution."""

    findings: list[Finding] = field(default_factory=list)
    """What it refuses; empty where the solution may go on."""
    notes: list[Finding] = field(default_factory=list)
    """What is worth noting but decides nothing."""

    def observations(self) -> list[str]:
        """Return the notes, one line each."""
        return [f"{one.rule}: {one.file}:{one.line} {one.message}" for one in self.notes]


def examine(solution: Solution, definition: Definition | None = None) -> Examined:
    """Look at every source of a solution; with a definition, also for what its contract rules out.

    Raises Refused where C++ or CUDA is to be read and tree-sitter is not installed.
    """
    seen = Examined()
    for source in solution.sources:
        if source.path == solution.entry_file and not source.content.strip():
            seen.findings.append(Finding(source.path, 1, "empty", "has no code"))
    if not solution.is_native:
        for source in solution.sources:
            if source.path.endswith(".py"):
                _python(source, solution, definition, seen)
    native = [source for source in solution.sources if source.path.endswith(_CPP_SUFFIXES)]
    _native([(source.path, 1, source.content) for source in native], seen)
    return seen


def check_policy(solution: Solution, definition: Definition | None = None) -> list[Finding]:
    """Return everything the policy refuses in a solution; empty where it may go on."""
    return examine(solution, definition).findings


def policy_observations(solution: Solution) -> list[str]:
    """Return what is worth noting in a solution but decides nothing, one line each."""
    return examine(solution).observations()


def _python(
    source: SourceFile, solution: Solution, definition: Definition | None, seen: Examined
) -> None:
    try:
        tree = pyast.parse(source.content)
    except pyast.NotPython as error:
        seen.findings.append(Finding(source.path, error.line, "syntax", error.message))
        return
    names = Names(tree)
    rules = (*FORBIDDEN, lower_precision) if definition and _single(definition) else FORBIDDEN
    seen.findings += _apply(source.path, names, rules)
    entry = f"defines {solution.entry_function}, which nothing uses"
    own = tuple(
        f"imports {PurePosixPath(s.path).parts[0].removesuffix('.py')}," for s in solution.sources
    )
    seen.notes += [
        hit
        for hit in _apply(source.path, names, (*DOUBTFUL, *DOUBTS))
        if hit.message != entry and not hit.message.startswith(own)
    ]
    _native([(source.path, one.line, one.text) for one in inline_sources(names)], seen)


def _single(definition: Definition) -> bool:
    """Say whether a definition promises float32 throughout."""
    specs = (*definition.inputs.values(), *definition.outputs.values())
    narrow = any(s.dtype.startswith(("float16", "bfloat", "float8", "float4")) for s in specs)
    return definition.kernelarc.tolerance == "strict" and not narrow


def _native(sources: Sequence[tuple[str, int, str]], seen: Examined) -> None:
    """Look at C++ and CUDA texts that belong together: path, first line, text."""
    read = [(path, line, CppNames(text)) for path, line, text in sources]
    own: set[str] = set().union(*(names.own for _, _, names in read))
    for path, line, names in read:
        names.own = own
        for hit, certain in _cpp_hits(path, line - 1, names):
            (seen.findings if certain else seen.notes).append(hit)
        if not names.complete:
            seen.notes.append(Finding(path, line, "unread", "takes too long to be read to its end"))


def _cpp_hits(path: str, before: int, names: CppNames) -> Iterator[tuple[Finding, bool]]:
    """Yield the hits of all rules by line, each message once per line, and whether it refuses."""
    hits = {
        Finding(path, before + line, rule.__name__, message): certain
        for rule in CPP_RULES
        for line, message, certain in rule(names)
    }
    for doubt in CPP_DOUBTS:
        for line, message in doubt(names):
            hits.setdefault(Finding(path, before + line, doubt.__name__, message), False)
    yield from sorted(hits.items(), key=lambda item: item[0].line)


def _apply(path: str, names: Names, rules: Sequence[Rule]) -> list[Finding]:
    """Return the hits of the rules, by line, each message once per line."""
    hits = {
        Finding(path, line, rule.__name__, message): None
        for rule in rules
        for line, message in rule(names)
    }
    return sorted(hits, key=lambda hit: hit.line)
