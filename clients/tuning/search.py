"""Which candidate comes next: coordinate descent over the axes of a lens. No input or output."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernelfamilies.family import Family, Plan, Point, tag
from tuning.lessons import Known


@dataclass(frozen=True)
class Place:
    """A point of one algorithm."""

    algorithm: str
    point: Point

    @property
    def name(self) -> str:
        return tag(self.algorithm, self.point)


@dataclass(frozen=True)
class Proposal:
    """What to submit, what it changes on the place it starts from, and why it is tried."""

    place: Place
    changed: tuple[str, ...]
    why: str
    on_record: bool = False
    """Whether it changes the record itself, so that a loss is the change's own."""


class Search:
    """One agent's walk. The server's answers move it; it never decides what was good."""

    def __init__(self, family: Family, lens: str, seed: int) -> None:
        self._family = family
        self._random = random.Random(seed)
        self._tried: set[str] = set()
        self._submitted: dict[str, Place] = {}
        self._drafted: set[str] = set()
        self._seen_wins: set[str] = set()
        self._older_wins: set[str] = set()
        self._plan: Plan = family.plan(lens)
        self._lucky: str = ""
        self.base = self._start(self._plan)

    def propose(self, known: Known) -> Proposal | None:
        """Return the next untried place that no trap rules out; None where nothing is left."""
        wins = [tag(win.algorithm, win.point) for win in known.wins]
        self._seen_wins.update(wins)
        origin = self._newer_win(known) or self.base
        taken = self._tried.union(wins)
        on_record = wins[:1] == [origin.name]
        if not self._is_barred(origin, taken, known):
            return Proposal(origin, (), "starting", on_record)
        for changed, why in self._steps(origin):
            place = self._at(origin.algorithm, {**origin.point, **changed})
            if not self._is_barred(place, taken, known):
                moved = tuple(a for a in changed if place.point[a] != origin.point[a])
                return Proposal(place, moved, why, on_record)
        return None

    def settle(
        self, proposal: Proposal, ticket: str, branch: str, gained: bool, stay: bool = False
    ) -> None:
        """Note a verdict; `branch` is the submission the server says to explore from now.

        With `stay` the base is kept: a draft that the gate refused goes on from where it began.
        """
        self._tried.add(proposal.place.name)
        self._submitted[ticket] = proposal.place
        if gained and proposal.changed:
            self._lucky = proposal.changed[0]
        if branch == ticket:
            self._older_wins |= self._seen_wins
        if not stay:
            self.restore(branch)

    def restore(self, branch: str) -> None:
        """Go back to the branch; one that this process never submitted changes nothing."""
        self.base = self._submitted.get(branch, self.base)

    def resume(self, branch: str, place: Place) -> None:
        """Take up a branch of an earlier process of the same agent."""
        if place.algorithm in self._family.algorithms:
            known = self._at(place.algorithm, place.point)
            self._submitted[branch] = known
            self._tried.add(known.name)
            self.base = known

    def draft(self, lens: str, peer: Place | None) -> None:
        """Leave the branch: start another algorithm, the peer's where that is another one."""
        self._plan = self._family.plan(lens)
        self._lucky = ""
        current = self.base.algorithm
        self._drafted.add(current)
        if peer and peer.algorithm in self._family.algorithms and peer.algorithm != current:
            self.base = self._at(peer.algorithm, peer.point)
            self._tried.add(self.base.name)
            self._drafted.add(peer.algorithm)
            return
        wanted = [self._plan.algorithm, *self._family.algorithms]
        others = [name for name in wanted if name != current]
        fresh = [name for name in others if name not in self._drafted]
        chosen = (fresh or others)[0]
        changes = self._plan.start if chosen == self._plan.algorithm else {}
        self.base = self._at(chosen, changes)

    def _start(self, plan: Plan) -> Place:
        return self._at(plan.algorithm, plan.start)

    def _at(self, algorithm: str, changes: Point) -> Place:
        return Place(algorithm, self._family.point(algorithm, changes))

    def _is_barred(self, place: Place, taken: set[str], known: Known) -> bool:
        return place.name in taken or known.excludes(place.algorithm, place.point)

    def _newer_win(self, known: Known) -> Place | None:
        """Return the newest win of the base's algorithm, unless the branch came after it."""
        for win in known.wins:
            if win.algorithm == self.base.algorithm:
                place = self._known_place(win.algorithm, win.point)
                return place if place and place.name not in self._older_wins else None
        return None

    def _known_place(self, algorithm: str, point: Point) -> Place | None:
        if algorithm not in self._family.algorithms:
            return None
        place = self._at(algorithm, point)
        return place if place.point == dict(point) else None

    def _steps(self, origin: Place) -> Iterator[tuple[Mapping[str, str], str]]:
        """Yield changes to a place: curious moves, neighbours, far values, pairs, other axes."""
        axes = self._family.algorithms[origin.algorithm].axes
        mine = [axis for axis in self._plan.axes if axis in axes]
        if self._lucky in mine:
            mine = [self._lucky, *(axis for axis in mine if axis != self._lucky)]
        rest = [axis for axis in axes if axis not in mine]
        self._random.shuffle(rest)
        for axis, value in self._plan.moves:
            if value in axes.get(axis, ()):
                yield {axis: value}, "a move of the lens"
        for axis in mine:
            for value in self._near(origin, axis):
                yield {axis: value}, "a neighbour"
        for axis in mine:
            for value in axes[axis]:
                yield {axis: value}, "farther along an axis"
        pairs = [(a, b) for n, a in enumerate(mine) for b in mine[n + 1 :]]
        self._random.shuffle(pairs)
        for a, b in pairs:
            for first in self._near(origin, a):
                for second in self._near(origin, b):
                    yield {a: first, b: second}, "two axes together"
        for axis in rest:
            for value in self._near(origin, axis):
                yield {axis: value}, "an axis outside the lens"

    def _near(self, origin: Place, axis: str) -> list[str]:
        values = self._family.algorithms[origin.algorithm].axes[axis]
        here = values.index(origin.point[axis])
        return [values[n] for n in (here + 1, here - 1) if 0 <= n < len(values)]
