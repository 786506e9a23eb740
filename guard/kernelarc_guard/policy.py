"""The policy stage: refuse, before anything runs, what no honest kernel needs; light.

Python is parsed, never searched as text. What is merely doubtful is noted. Native sources are
only looked at for being there; their build and the isolation decide about the rest.
"""

import ast
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from kernelarc_guard.definition import Definition
from kernelarc_guard.policy_doubts import DOUBTS, lower_precision
from kernelarc_guard.policy_rules import DOUBTFUL, FORBIDDEN, Rule
from kernelarc_guard.pynames import Names
from kernelarc_guard.solution import Solution, SourceFile


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


def check_policy(solution: Solution, definition: Definition | None = None) -> list[Finding]:
    """Return everything the policy refuses in a solution; empty where it may go on.

    With a definition, also what only its contract rules out.
    """
    rules = (*FORBIDDEN, lower_precision) if definition and _single(definition) else FORBIDDEN
    findings = [
        Finding(source.path, 1, "empty", "has no code")
        for source in solution.sources
        if source.path == solution.entry_file and not source.content.strip()
    ]
    for source in _python(solution):
        tree = _parse(source)
        if isinstance(tree, Finding):
            findings.append(tree)
        else:
            findings += _apply(source.path, Names(tree), rules)
    return findings


def _single(definition: Definition) -> bool:
    """Say whether a definition promises float32 throughout."""
    specs = (*definition.inputs.values(), *definition.outputs.values())
    narrow = any(s.dtype.startswith(("float16", "bfloat", "float8", "float4")) for s in specs)
    return definition.kernelarc.tolerance == "strict" and not narrow


def policy_observations(solution: Solution) -> list[str]:
    """Return what is worth noting in a solution but decides nothing, one line each."""
    noted = []
    entry = f"defines {solution.entry_function}, which nothing uses"
    own = {
        f"imports {PurePosixPath(s.path).parts[0].removesuffix('.py')}," for s in solution.sources
    }
    for source in _python(solution):
        tree = _parse(source)
        if isinstance(tree, Finding):
            continue
        for hit in _apply(source.path, Names(tree), (*DOUBTFUL, *DOUBTS)):
            if hit.message != entry and not hit.message.startswith(tuple(own)):
                noted.append(f"{hit.rule}: {hit.file}:{hit.line} {hit.message}")
    return noted


def _python(solution: Solution) -> Iterator[SourceFile]:
    if not solution.is_native:
        yield from (source for source in solution.sources if source.path.endswith(".py"))


def _parse(source: SourceFile) -> ast.Module | Finding:
    try:
        with warnings.catch_warnings():
            # A dubious escape is no reason to refuse, and its warning is not ours to show.
            warnings.simplefilter("ignore")
            return ast.parse(source.content, filename=source.path)
    except SyntaxError as error:
        return Finding(source.path, error.lineno or 1, "syntax", error.msg)
    except (ValueError, RecursionError, MemoryError) as error:
        return Finding(source.path, 1, "syntax", f"{type(error).__name__}: {error}")


def _apply(path: str, names: Names, rules: Sequence[Rule]) -> list[Finding]:
    """Return the hits of the rules, by line, each message once per line."""
    hits = {
        Finding(path, line, rule.__name__, message): None
        for rule in rules
        for line, message in rule(names)
    }
    return sorted(hits, key=lambda hit: hit.line)
