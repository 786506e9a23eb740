"""What a scripted agent does: calls of tools, each chosen from what the earlier ones answered."""

import json
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

Answer = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One call of a tool of the server under test."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)


Story = Callable[[], Generator[Call, Answer, None]]
"""Starts an agent from the beginning: it yields calls and is sent their answers."""


def next_call(story: Story, answers: list[Answer]) -> Call | None:
    """Return the call after `answers`, None at the story's end.

    A model API is asked with the whole conversation each time, so the story is told anew.
    """
    told = story()
    try:
        call = next(told)
        for answer in answers:
            call = told.send(answer)
    except StopIteration:
        return None
    return call


def read_answer(text: str) -> Answer:
    """Return the JSON object in what a client showed of a tool's result, whatever it put around it.

    Where there is none, as in a refusal, the text comes back under `text`.
    """
    start = text.find("{")
    if start >= 0:
        try:
            found, _ = json.JSONDecoder().raw_decode(text, start)
        except json.JSONDecodeError:
            return {"text": text}
        if isinstance(found, dict):
            return found
    return {"text": text}
