"""In which order submissions are judged, with several judged at once; pure."""

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol


class Waiting(Protocol):
    """What the order depends on."""

    ticket: str
    agent: str
    number: int
    """Of all attempts in the campaign."""
    claims: int
    """How often its judgement began."""


def first_in_line(
    waiting: Iterable[Waiting],
    served: Mapping[str, int],
    judging: Sequence[str] = (),
    most: int = 1,
) -> str:
    """Return the ticket that is judged next; empty without any.

    A judgement that was cut off comes first; else the agent least recently served (`served` is the
    row of its last claim), then its oldest submission. Agents who have `most` in `judging` are passed over.
    """
    at_work = Counter(judging)
    first = min(
        (one for one in waiting if at_work[one.agent] < most),
        key=lambda one: (one.claims == 0, served[one.agent], one.number),
        default=None,
    )
    return "" if first is None else first.ticket


def whole_line(
    waiting: Iterable[Waiting],
    served: Mapping[str, int],
    seq: int,
    judging: Sequence[str] = (),
    most: int = 1,
) -> list[str]:
    """Return all tickets in the order in which they are judged if none joins; `seq` is the last row.

    That order takes it that what is judged now (`judging` has its agents, the first claimed first) ends in
    the order in which it began, and that a claim follows each end, as it does while more waits than lanes
    are free.
    """
    lines: dict[str, list[tuple[bool, int, str]]] = defaultdict(list)
    for one in waiting:
        lines[one.agent].append((one.claims == 0, one.number, one.ticket))
    for line in lines.values():
        line.sort(reverse=True)
    turns, at_work = dict(served), deque(judging)
    busy = Counter(at_work)
    heads = [_head(a, line, turns[a]) for a, line in lines.items() if busy[a] < most]
    heapq.heapify(heads)
    order: list[str] = []
    queued = sum(len(line) for line in lines.values())
    while len(order) < queued:
        if at_work:
            ended = at_work.popleft()
            busy[ended] -= 1
            if busy[ended] == most - 1 and lines[ended]:
                heapq.heappush(heads, _head(ended, lines[ended], turns[ended]))
        if not heads:
            continue
        _, _, _, agent, ticket = heapq.heappop(heads)
        order.append(ticket)
        at_work.append(agent)
        busy[agent] += 1
        turns[agent] = seq + len(order)
        line = lines[agent]
        line.pop()
        if line and busy[agent] < most:
            heapq.heappush(heads, _head(agent, line, turns[agent]))
    return order


def _head(
    agent: str, line: list[tuple[bool, int, str]], turn: int
) -> tuple[bool, int, int, str, str]:
    fresh, number, ticket = line[-1]
    return fresh, turn, number, agent, ticket
