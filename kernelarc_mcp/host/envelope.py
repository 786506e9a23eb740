"""The first check of a submission: sizes, text, paths, language and entry point.

What fails here is stored and charged; what a tool's schema refuses never comes here.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Any, Final

from kernelarc_guard.fingerprint import dsl_of, normalised_digest
from kernelarc_guard.solution import Solution, SolutionError, make_solution
from kernelarc_mcp.host.events import FileRef, Proposal, canonical

MAX_FILES: Final = 32
MAX_BYTES: Final = 512 * 1024
"""Of all sources together, in UTF-8."""
_CPU_LANGUAGES: Final = ("python", "pytorch", "numpy", "cpp")
# What the guard can load or build for a GPU: host C++ and numpy have no sight of its memory.
_GPU_LANGUAGES: Final = (
    "python",
    "pytorch",
    "triton",
    "cuda",
    "cuda_cpp",
    "cupy",
    "cute_dsl",
    "cutile",
    "tilelang",
    "helion",
)


@dataclass(frozen=True)
class Refusal:
    """Why a submission is rejected before the guard sees it."""

    reason: str
    detail: str


@dataclass(frozen=True)
class Envelope:
    """A submission that was opened."""

    solution: Solution | None
    """None where it was refused."""
    refusal: Refusal | None
    key: str | None
    """Equal for submissions with the same normalised source, called and compiled the same way."""
    found_dsl: str


def languages_of(device: str) -> tuple[str, ...]:
    """Return the languages a campaign on this device can run."""
    return _CPU_LANGUAGES if device.startswith("cpu") else _GPU_LANGUAGES


def encode(text: str) -> bytes:
    """Return the bytes of a text, also of one that is not valid UTF-8."""
    return text.encode("utf-8", "surrogatepass")


def file_ref(path: str, content: str) -> FileRef:
    """Describe a file as the ledger does."""
    data = encode(content)
    # A path may hold what JSON in a database cannot; it is then shown escaped, and refused.
    shown = path.encode("ascii", "backslashreplace").decode()[:400]
    return FileRef(path=shown, digest=hashlib.sha256(data).hexdigest(), size=len(data))


def is_kept(proposal: Proposal) -> bool:
    """Say whether the bytes of a proposal's files are small enough to be stored."""
    return (
        len(proposal.files) <= MAX_FILES and sum(file.size for file in proposal.files) <= MAX_BYTES
    )


def open_envelope(
    proposal: Proposal, contents: list[str], device: str, definition: str, name: str, author: str
) -> Envelope:
    """Check a proposal and make a solution of it; `contents` are the texts of its files."""
    refusal = _too_large(proposal) or _wrong_language(proposal, device)
    if refusal is not None:
        return Envelope(None, refusal, None, "")
    try:
        solution = make_solution(_fields(proposal, contents, definition, name, author))
    except SolutionError as error:
        return Envelope(None, Refusal(error.reason, _sentence(str(error))), None, "")
    refusal = _empty(solution) or _no_function(solution)
    if refusal is not None:
        return Envelope(None, refusal, None, "")
    return Envelope(solution, None, _key(solution), dsl_of(solution))


def _fields(
    proposal: Proposal, contents: list[str], definition: str, name: str, author: str
) -> dict[str, Any]:
    native = proposal.cflags or proposal.cuda_cflags or proposal.ld_flags
    options = {
        "cflags": proposal.cflags,
        "cuda_cflags": proposal.cuda_cflags,
        "ld_flags": proposal.ld_flags,
    }
    return {
        "name": name,
        "definition": definition,
        "author": author,
        "description": proposal.summary,
        "spec": {
            "languages": [proposal.language],
            "entry_point": proposal.entry_point,
            "destination_passing_style": proposal.destination_passing,
            "binding": proposal.binding or None,
            "compile_options": options if native else None,
        },
        "sources": [
            {"path": file.path, "content": content}
            for file, content in zip(proposal.files, contents, strict=True)
        ],
    }


def _too_large(proposal: Proposal) -> Refusal | None:
    if len(proposal.files) > MAX_FILES:
        return Refusal(
            "envelope_too_large", f"{len(proposal.files)} files; at most {MAX_FILES} are allowed."
        )
    size = sum(file.size for file in proposal.files)
    if size > MAX_BYTES:
        return Refusal(
            "envelope_too_large",
            f"The sources have {size} bytes together; at most {MAX_BYTES} are allowed.",
        )
    return None


def _wrong_language(proposal: Proposal, device: str) -> Refusal | None:
    allowed = languages_of(device)
    if proposal.language in allowed:
        return None
    return Refusal(
        "envelope_bad_language",
        f"{proposal.language!r} cannot run on {device}; allowed are {', '.join(allowed)}.",
    )


def _empty(solution: Solution) -> Refusal | None:
    for source in solution.sources:
        if not source.content.strip():
            return Refusal("envelope_bad_text", f"{source.path} is empty.")
    return None


def _no_function(solution: Solution) -> Refusal | None:
    entry = next(s for s in solution.sources if s.path == solution.entry_file)
    if re.search(rf"\b{re.escape(solution.entry_function)}\b", entry.content):
        return None
    return Refusal(
        "envelope_bad_entry",
        f"{solution.entry_file} has no {solution.entry_function!r}; entry_point is"
        " FILE::FUNCTION with a function of that file.",
    )


def _key(solution: Solution) -> str:
    """Flags count only where something is compiled; what the language is called never does."""
    options = solution.spec.compile_options
    how = [
        solution.entry_function,
        solution.spec.destination_passing_style,
        solution.binding,
        options.model_dump(mode="json") if options and solution.is_native else None,
    ]
    content = canonical([normalised_digest(solution.sources), how])
    return hashlib.sha256(content.encode()).hexdigest()


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
