"""One scripted agent: brief, memory, propose, submit, learn, obey; until it is told to stop."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from kernelfamilies.catalogue import family_for
from kernelfamilies.family import Candidate, Family, Interface, read_header, render
from tuning import lessons
from tuning.connection import Campaign, ToolFailed
from tuning.search import Place, Proposal, Search

WAIT_SECONDS: Final = 45.0
PAGE: Final = 200
"""Conclusions asked for at once; an answer has room for fewer and says where it goes on."""


class Agent:
    """Holds what one run of the tuner knows; the campaign's server holds everything else."""

    def __init__(self, campaign: Campaign, name: str, seed: int) -> None:
        self._campaign = campaign
        self._name = name
        self._seed = seed
        self._draft_begun = False

    async def run(self, attempts: int) -> None:
        """Search until the directive is STOP, `attempts` are charged or nothing is left to try."""
        brief = await self._campaign.call("get_brief")
        interface = interface_of(brief)
        family = family_for(brief["problem"], interface.tensors, interface.outputs, brief["device"])
        if family is None:
            raise ToolFailed(f"the tuner has no kernel family for {brief['problem']!r}")
        state = brief["state"]
        self._name = self._name or state["agent"]
        lens = await self._campaign.call("get_strategy_lens")
        self._say(f"lens {lens['name']}: {lens['title']}; record {brief['record']['submission']}")
        search = Search(family, state["lens"], self._seed)
        await self._resume(search, state["branch"])
        made = 0
        while made < attempts:
            if state["directive"] == "STOP":
                self._say("STOP: the budget is spent")
                return
            await self._obey(search, state)
            known = lessons.read_conclusions(await self._memory())
            proposal = search.propose(known)
            if proposal is None:
                search.draft(state["lens"], None)
                self._say(f"nothing left to vary: {search.base.algorithm} from scratch")
                proposal = search.propose(known)
            if proposal is None:
                self._say("nothing is left to try that no trap rules out")
                return
            view = await self._attempt(search, family, interface, proposal)
            state = view["state_after"]
            made += int(view["charged"])
        self._say(f"{attempts} attempts made")

    async def _obey(self, search: Search, state: Mapping[str, Any]) -> None:
        if state["directive"] == "RESTORE":
            search.restore(state["branch"])
        elif state["directive"] == "DRAFT" and not self._draft_begun:
            self._draft_begun = True
            peer = await self._best_of_others()
            search.draft(state["lens"], peer)
            origin = "a peer's snapshot" if peer == search.base else "scratch"
            self._say(f"DRAFT under {state['lens']}: {search.base.algorithm}, from {origin}")

    async def _attempt(
        self, search: Search, family: Family, interface: Interface, proposal: Proposal
    ) -> Mapping[str, Any]:
        place = proposal.place
        candidate = render(family, place.algorithm, place.point, interface)
        view = await self._submit(candidate, proposal)
        state = view["state_after"]
        gain = f" {view['speedup']:.2f}x" if view["speedup"] else ""
        charged = f"#{state['attempts_used']}" if view["charged"] else "known already:"
        self._say(f"{charged} {view['ticket']} {view['verdict']} {view['reason']}{gain}")
        gained = view["verdict"] == "KEEP" or (
            view["verdict"] == "ACCEPT" and (view["speedup"] or 0) > 1
        )
        # The gate refused this variant of the draft, but not for being the old algorithm.
        go_on = (
            self._draft_begun and view["verdict"] == "REJECT" and view["reason"] != "draft_not_new"
        )
        self._draft_begun = go_on
        search.settle(proposal, view["ticket"], state["branch"], gained, stay=go_on)
        if view["charged"]:
            await self._conclude(family, proposal, view)
        return view

    async def _submit(self, candidate: Candidate, proposal: Proposal) -> dict[str, Any]:
        moved = ", ".join(f"{axis}={candidate.point[axis]}" for axis in proposal.changed)
        summary = f"{candidate.algorithm}: {moved or 'first choices'} ({proposal.why})"
        self._say(f"trying {summary}")
        view = await self._campaign.call(
            "submit_candidate",
            source=candidate.source,
            filename=candidate.filename,
            language=candidate.language,
            destination_passing=candidate.destination_passing,
            binding=candidate.binding,
            cflags=list(candidate.cflags),
            summary=summary,
            algorithm=candidate.algorithm,
            dsl=candidate.dsl,
            layout=candidate.layout,
            model="tuner",
            request_id=candidate.digest,
            wait_seconds=WAIT_SECONDS,
        )
        charged = view["charged"]
        while view["state"] != "done":
            view = await self._campaign.call(
                "wait_submission", ticket=view["ticket"], wait_seconds=WAIT_SECONDS
            )
        return view | {"charged": charged}

    async def _conclude(self, family: Family, proposal: Proposal, view: Mapping[str, Any]) -> None:
        place = proposal.place
        if view["verdict"] == "KEEP":
            kind = "win"
            summary, lesson = lessons.win(
                place.algorithm, place.point, proposal.changed, view["speedup"] or 1.0
            )
        elif view["verdict"] in ("REJECT", "REVERT") and (
            view["reason"] not in lessons.UNINFORMATIVE
        ):
            kind = "trap"
            known = family.algorithms[place.algorithm]
            summary, lesson = lessons.trap(
                known, place.point, proposal.changed, view, proposal.on_record
            )
        else:
            return
        await self._campaign.call(
            "write_conclusion", kind=kind, summary=summary, lesson=lesson, evidence=view["ticket"]
        )
        self._say(f"wrote a {kind}: {summary}")

    async def _memory(self) -> list[Mapping[str, Any]]:
        """Return all conclusions that the campaign's retention shows, newest first, page by page."""
        found: list[Mapping[str, Any]] = []
        offset: int | None = 0
        while offset is not None:
            page = await self._campaign.call("read_memory", limit=PAGE, offset=offset)
            found += page["conclusions"]
            offset = page["next_offset"]
        return found

    async def _resume(self, search: Search, branch: str) -> None:
        """Take up the branch of an earlier run, where a tuner wrote it."""
        if branch != "seed":
            place = await self._read_place(branch)
            if place is not None:
                search.resume(branch, place)

    async def _best_of_others(self) -> Place | None:
        """Return the best place of another agent on the board, where its source can be read."""
        board = await self._campaign.call("view_leaderboard")
        for row in board["rows"]:
            if row["agent"] in (None, self._name):
                continue
            try:
                place = await self._read_place(row["submission"])
            except ToolFailed as refusal:
                self._say(f"cannot read {row['submission']}: {refusal}")
                continue
            if place is not None:
                return place
        return None

    async def _read_place(self, submission: str) -> Place | None:
        snapshot = await self._campaign.call("view_snapshot", submission=submission)
        header = read_header(snapshot["text"])
        return Place(*header) if header else None

    def _say(self, text: str) -> None:
        print(f"{self._name or 'tuner'}: {text}", flush=True)


def interface_of(brief: Mapping[str, Any]) -> Interface:
    """Return the operator's interface from the brief; inputs without a shape are scalars."""
    scalars: dict[str, Literal["double", "int64_t"]] = {
        tensor["name"]: "double" if tensor["dtype"].startswith(("float", "bfloat")) else "int64_t"
        for tensor in brief["inputs"]
        if tensor["shape"] is None
    }
    return Interface(
        inputs=tuple(tensor["name"] for tensor in brief["inputs"]),
        outputs=tuple(tensor["name"] for tensor in brief["outputs"]),
        scalars=scalars,
        reference=brief["reference"],
    )
