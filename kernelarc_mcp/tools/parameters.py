"""The types of the tools' arguments, with their limits.

Texts are plain `str` with `""` for "not given": a `str | None` argument is parsed as JSON by the
SDK first, which turns a source that happens to be JSON into something else.
"""

from typing import Annotated, Literal

from pydantic import Field

from kernelarc_mcp.follow import MAX_WAIT
from kernelarc_mcp.host.envelope import MAX_BYTES, MAX_FILES

MAX_TEXT = MAX_BYTES
"""Characters of one text; above this a call is refused, below it the envelope counts all bytes."""

Ticket = Annotated[
    str, Field(min_length=1, max_length=100, description="Ticket that submit_candidate returned.")
]
Wait = Annotated[
    float,
    Field(
        ge=0,
        le=MAX_WAIT,
        allow_inf_nan=False,
        description="Longest wait in seconds before the call returns, finished or not.",
    ),
]
Turn = Annotated[
    int,
    Field(
        ge=1,
        le=1_000_000,
        description="1 at the first wait for it, then one more each time, as next_step says.",
    ),
]
"""Makes each wait another call: Gemini CLI ends an agent that makes the same call five times."""
Source = Annotated[
    str,
    Field(min_length=1, max_length=MAX_TEXT, description="Whole text of the entry file."),
]
FileName = Annotated[
    str,
    Field(
        max_length=240,
        description="Name of the entry file, such as <cuda>`kernel.cu`</cuda><cpu>`kernel.cpp`</cpu> or `kernel.py`; "
        "empty: `kernel` with the language's ending.",
    ),
]
Files = Annotated[
    dict[str, Annotated[str, Field(max_length=MAX_TEXT)]],
    Field(max_length=MAX_FILES - 1, description="Further files: relative path -> whole text."),
]
Label = Annotated[str, Field(max_length=120)]
Flags = Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=50)]
Offset = Annotated[int, Field(ge=0, le=1_000_000_000)]
Kind = Literal["win", "trap"]
