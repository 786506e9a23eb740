"""Strategies for values that readers of JSON and text stumble over."""

import json
from typing import Any

from hypothesis import strategies as st

NASTY_TEXT = st.one_of(
    st.text(max_size=40),
    st.text(st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF), min_size=1, max_size=3),
    st.sampled_from(
        [
            "",
            "\x00",
            "a\x00b",
            "\ufeff",
            "\u2028",
            "..",
            "../up",
            "/etc/passwd",
            "a/../b",
            "a\\b",
            "x" * 300,
            "x" * 100_000,
            "-o",
            "@file",
            "run",
            "kernel.py::run",
            "__proto__",
            "9" * 5000,
            "n",
            "1" * 30,
            "\x1b[2J",
            "line\nbreak",
        ]
    ),
)
NASTY_NUMBERS = st.one_of(
    st.sampled_from(
        [0, -1, 1, 2**31, 2**48, 2**48 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**400, 1e308]
    ),
    st.floats(),
    st.integers(),
)
NASTY = st.recursive(
    st.one_of(st.none(), st.booleans(), NASTY_NUMBERS, NASTY_TEXT),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(NASTY_TEXT, inner, max_size=4)
    ),
    max_leaves=8,
)


def paths(value: Any) -> list[tuple[Any, ...]]:
    """Return the path of every value inside a JSON value, its own first."""
    found: list[tuple[Any, ...]] = [()]
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        found += [(key, *rest) for key, inner in items for rest in paths(inner)]
    return found


@st.composite
def mutated(draw: st.DrawFn, base: Any) -> Any:
    """Return a JSON value with a few of its parts replaced, removed, renamed or multiplied."""
    value = json.loads(json.dumps(base))
    for _ in range(draw(st.integers(0, 3))):
        path: list[Any] = ["", *draw(st.sampled_from(paths(value)))]
        parents, last = path[:-1], path[-1]
        holder: Any = {"": value}
        for key in parents:
            holder = holder[key]
        sort = draw(st.sampled_from(["replace", "replace", "remove", "add", "many"]))
        if sort == "remove" and (last != "" or parents):
            del holder[last]
        elif sort == "add" and isinstance(holder[last], dict):
            holder[last][draw(NASTY_TEXT)] = draw(NASTY)
        elif sort == "many" and isinstance(holder[last], list):
            holder[last] = holder[last] * draw(st.integers(2, 300))
        else:
            holder[last] = draw(NASTY)
        if not parents:
            value = holder.get("", {})
    return value


@st.composite
def written(draw: st.DrawFn, value: Any) -> bytes:
    """Return a JSON value as a file may hold it: escaped or not, with keys twice, cut, spoilt."""
    ascii_only = draw(st.booleans())
    text = json.dumps(value, ensure_ascii=ascii_only, indent=draw(st.sampled_from([None, 1])))
    sort = draw(
        st.sampled_from(["as it is"] * 6 + ["twice", "cut", "spoilt", "mark", "deep", "nul"])
    )
    if sort == "twice" and text.startswith("{"):
        text = text.replace("{", '{"name": 1, "name": 2, ', 1)
    if sort == "deep":
        text = text.replace("null", "[" * 20_000, 1)
    data = text.encode("utf-8", "surrogatepass")
    if sort == "cut":
        return data[: draw(st.integers(0, len(data)))]
    if sort == "spoilt":
        at = draw(st.integers(0, len(data)))
        return data[:at] + draw(st.binary(min_size=1, max_size=8)) + data[at + 1 :]
    if sort == "mark":
        return b"\xef\xbb\xbf" + data
    return data + b"\x00" if sort == "nul" else data


def json_files(base: Any) -> st.SearchStrategy[bytes]:
    """Return files that hold a mutated JSON value."""
    return mutated(base).flatmap(written)
