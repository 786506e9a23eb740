"""Bytes that are not UTF-8 become something the tools can refuse by name."""

import io
import json

from kernelarc_mcp.wire import RepairedInput, repair


def test_valid_text_is_left_alone() -> None:
    for text in ("plain", "ä€😀", 'tab\t and \\ and "quotes"', "\N{GRINNING FACE}"):
        for ascii_only in (True, False):
            message = json.dumps({"text": text}, ensure_ascii=ascii_only).encode()
            assert repair(message) == message


def test_bytes_that_are_not_utf8_become_the_replacement_character() -> None:
    assert repair(b'{"source": "caf\xe9"}').decode() == '{"source": "caf\ufffd"}'


def test_a_lone_surrogate_escape_becomes_the_replacement_character() -> None:
    for lone in (r"\ud800", r"\uDFFF", r"\ud83d-", r"\udc00\ud800"):
        repaired = json.loads(repair(f'{{"a": "{lone}"}}'.encode()))["a"]
        assert "\ufffd" in repaired
        repaired.encode("utf-8")


def test_a_pair_of_surrogate_escapes_is_one_character() -> None:
    assert json.loads(repair(rb'{"a": "\ud83d\ude00"}'))["a"] == "\N{GRINNING FACE}"


def test_an_escaped_backslash_before_u_is_source_text_not_an_escape() -> None:
    source = 'print("\\ud800")'
    message = json.dumps({"source": source}).encode()
    assert json.loads(repair(message))["source"] == source


def test_a_stream_is_repaired_line_by_line() -> None:
    raw = io.BytesIO(b'{"a": "\xff"}\n{"b": "' + b"x" * 20_000 + b'"}\nrest')
    with io.TextIOWrapper(RepairedInput(raw), encoding="utf-8") as stream:
        assert [len(line) for line in stream] == [11, 20_010, 4]
