"""In which order submissions are judged; pure."""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Protocol


class Waiting(Protocol):
    """What the order depends on."""

    ticket: str
    agent: str
    number: int
    """Of all attempts in the campaign."""
    claims: int
    """How often its judgement began."""


def first_in_line(waiting: Iterable[Waiting], served: Mapping[str, int]) -> str:
    """Return the ticket that is judged next; empty without any.

    A judgement that was cut off comes first; else the agent least recently served (`served` is the
    row of its last claim), then its oldest submission.
    """
    first = min(
        waiting, key=lambda one: (one.claims == 0, served[one.agent], one.number), default=None
    )
    return "" if first is None else first.ticket


def whole_line(waiting: Iterable[Waiting], served: Mapping[str, int], seq: int) -> list[str]:
    """Return all tickets in the order in which they are judged if none joins; `seq` is the last row."""
    lines: dict[str, list[tuple[bool, int, str]]] = defaultdict(list)
    for one in waiting:
        lines[one.agent].append((one.claims == 0, one.number, one.ticket))
    for line in lines.values():
        line.sort(reverse=True)
    heads = [_head(agent, line, served[agent]) for agent, line in lines.items()]
    heapq.heapify(heads)
    order: list[str] = []
    while heads:
        _, _, _, agent, ticket = heapq.heappop(heads)
        order.append(ticket)
        line = lines[agent]
        line.pop()
        if line:
            heapq.heappush(heads, _head(agent, line, seq + len(order)))
    return order


def _head(
    agent: str, line: list[tuple[bool, int, str]], turn: int
) -> tuple[bool, int, int, str, str]:
    fresh, number, ticket = line[-1]
    return fresh, turn, number, agent, ticket
