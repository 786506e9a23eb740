"""What an agent may read beside its lens: pattern templates, and courses page by page."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from kernelarc_mcp.data import data_dir
from kernelarc_mcp.host.errors import CampaignError
from kernelarc_mcp.host.lenses import Backend, backend_of, eligible_lenses
from kernelarc_mcp.host.wording import worded

INDEX_URI: Final = "kernelarc://guide"
TEMPLATE_URI: Final = "kernelarc://template/"
COURSE_URI: Final = "kernelarc://curriculum/"
MAX_PAGE: Final = 9_500
"""Characters of one page: clients cut answers from about 10,000 on."""
_MATRIX: Final = "hopper-gemm"
_MEMORY: Final = "memory-bound"
_COURSES: Final[dict[str, tuple[Backend, ...]]] = {_MATRIX: ("cuda",), _MEMORY: ("cpu", "cuda")}
Language = Literal["cpp", "cuda", "triton", "python"]
_RUNS_ON: Final[dict[Language, tuple[Backend, ...]]] = {
    "cpp": ("cpu",),
    "python": ("cpu", "cuda"),
    "cuda": ("cuda",),
    "triton": ("cuda",),
}
_PAGE: Final = re.compile(
    r"# (?P<title>[^\n]+)\n\n> (?P<summary>[^\n]+)\n\n(?P<body>.+)", re.DOTALL
)
_ONLY: Final = re.compile(r"^> <(cpu|cuda)/>", re.MULTILINE)
_FILE: Final = re.compile(r"\d\d-(?P<name>[a-z0-9-]+)")


@dataclass(frozen=True)
class Template:
    """A short pattern that compiles."""

    name: str
    language: Language
    shows: str
    """One sentence."""
    text: str

    @property
    def uri(self) -> str:
        """Return where it is read."""
        return TEMPLATE_URI + self.name

    def runs_on(self, backend: Backend) -> bool:
        """Say whether a campaign on that backend can use it."""
        return backend in _RUNS_ON[self.language]


@dataclass(frozen=True)
class Page:
    """One page of a course."""

    course: str
    name: str
    """Empty: the course's table of contents."""
    title: str
    summary: str
    text: str
    """Markdown, with where to go on."""
    backend: Backend | None
    """The only one it is for; None: every one."""

    @property
    def uri(self) -> str:
        """Return where it is read."""
        return course_uri(self.course, self.name)


def course_uri(course: str, name: str = "") -> str:
    """Return where a page of a course is read, without a name its table of contents."""
    return f"{COURSE_URI}{course}/{name}" if name else f"{COURSE_URI}{course}"


def templates() -> dict[str, Template]:
    """Return every template by name; CampaignError for a file that is none."""
    return load_templates(data_dir("strategies") / "templates")


def pages(backend: Backend | None = None) -> list[Page]:
    """Return every course page by page, its contents first; CampaignError for a malformed page.

    With a backend only its pages, in its words.
    """
    return load_courses(data_dir("strategies") / "curriculum", backend)


def courses_for(operator_class: str, device: str) -> list[Page]:
    """Return the contents of the courses for a campaign, the likeliest first."""
    backend = backend_of(device)
    contents = {page.course: page for page in pages(backend) if not page.name}
    # Classes whose kernels may be written in the hardware's own matrix instructions.
    matrix = "hardware-native" in eligible_lenses(operator_class, device)
    order = [_MATRIX, _MEMORY] if matrix else [_MEMORY, _MATRIX]
    return [contents[name] for name in order if backend in _COURSES[name]]


@lru_cache(maxsize=8)
def load_templates(folder: Path) -> dict[str, Template]:
    """Read a folder of templates; the first line of each says what it shows."""
    found: dict[str, Template] = {}
    for path in sorted(folder.iterdir()):
        if path.is_dir() or path.suffix not in (".cpp", ".cu", ".py"):
            continue
        if path.stem in found:
            raise CampaignError(f"{path.name}: there is another template {path.stem!r}")
        text = path.read_text(encoding="utf-8")
        first = text.partition("\n")[0]
        shows = first.removeprefix("// ").removeprefix('"""').removesuffix('"""').strip()
        if first == shows or not shows.endswith("."):
            raise CampaignError(f"{path.name}: line 1: expected a comment, one sentence")
        if len(text) > MAX_PAGE:
            raise CampaignError(f"{path.name}: {len(text)} characters; at most {MAX_PAGE}")
        found[path.stem] = Template(path.stem, _language(path, text), shows, text)
    return found


@lru_cache(maxsize=8)
def load_courses(folder: Path, backend: Backend | None = None) -> list[Page]:
    """Read a folder of courses, each a folder of pages `NN-name.md` in their order.

    A summary that begins with `<cuda/>` or `<cpu/>` makes a page one for that backend alone.
    """
    return [
        page
        for course in sorted(folder.iterdir())
        if course.is_dir()
        for page in _read(course, backend)
    ]


def _language(path: Path, text: str) -> Language:
    if path.suffix == ".py":
        return "triton" if "import triton" in text else "python"
    return "cuda" if path.suffix == ".cu" else "cpp"


def _read(folder: Path, backend: Backend | None) -> list[Page]:
    """Return a course's contents and pages; `00-contents.md` leads them."""
    raw = [_page(path, backend) for path in sorted(folder.glob("*.md"))]
    if not raw or raw[0].name != "contents":
        raise CampaignError(f"curriculum/{folder.name}: expected 00-contents.md first")
    contents, *rest = [page for page in raw if not backend or page.backend in (None, backend)]
    listed = "\n".join(f"{n}. `{page.uri}`: {page.summary}" for n, page in enumerate(rest, 1))
    first = replace(contents, name="", text=f"{contents.text}\n{listed}\n")
    linked = [first]
    for number, page in enumerate(rest):
        following = rest[number + 1].uri if number + 1 < len(rest) else ""
        onward = f"Next: `{following}`. " if following else "This is the last page. "
        footer = f"\n---\n{onward}Contents: `{first.uri}`.\n"
        linked.append(replace(page, text=page.text + footer))
    for page in linked:
        if len(page.text) > MAX_PAGE:
            where = f"curriculum/{folder.name}: {page.name or 'contents'}"
            raise CampaignError(f"{where}: {len(page.text)} characters; at most {MAX_PAGE}")
    return linked


def _page(path: Path, backend: Backend | None) -> Page:
    where = f"curriculum/{path.parent.name}/{path.name}"
    named = _FILE.fullmatch(path.stem)
    if named is None:
        raise CampaignError(f"{where}: expected a name like 01-tiles.md")
    text = worded(path.read_text(encoding="utf-8"), backend)
    only = _ONLY.search(text)
    text = _ONLY.sub("> ", text, count=1)
    parts = _PAGE.fullmatch(text)
    if parts is None:
        raise CampaignError(f"{where}: expected `# Title`, then `> summary` in one line, then text")
    kept: Backend | None = None if only is None else "cpu" if only[1] == "cpu" else "cuda"
    return Page(path.parent.name, named["name"], parts["title"], parts["summary"], text, kept)
