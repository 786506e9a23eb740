"""Deciding again from recorded pairs, and holding recorded leases against one another; pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kernelarc_guard.apart import ROUNDS, contradiction, settled
from kernelarc_guard.decide import (
    Calibration,
    Decision,
    Parameters,
    pair_value,
    replay_confirm,
    replay_screen,
    workload_values,
)
from kernelarc_guard.pairs import Block
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import Lease, PairTimes, Result
from kernelarc_guard.ratios import anchored

_DECIDED: Final = frozenset(
    {
        "slower",
        "not_proven_close",
        "workload_regressed",
        "close_to_record",
        "gain_not_confirmed",
        "confirmed",
    }
)
"""Reasons that only the rule gives; with any other the guard saw something before it."""


@dataclass(frozen=True)
class Held:
    """One lease as the ledger tells it."""

    seq: int
    machine: str
    """Of the row it is in; a lease that names its own was held there."""
    lease: Lease

    @property
    def unit(self) -> tuple[str, str]:
        """Return the machine and what was locked on it."""
        return self.lease.machine or self.machine, self.lease.unit or self.lease.device


def recheck(
    result: Result, weights: Sequence[float], parameters: Parameters, stake: float
) -> list[str]:
    """Return what in a screen's or a confirmation's result does not follow from its pairs."""
    decision = result.decision
    if decision is None:
        if result.verdict is None or result.reason in _DECIDED:
            return ["there is no decision"]
        return []
    if result.calibration is None:
        return ["the calibration of the decision is missing"]
    try:
        values = [pair_value(blocks_of(pair), weights) for pair in result.pairs]
        if result.op == "screen":
            again = replay_screen(values, parameters, result.calibration, stake)
        else:
            each = [workload_values(blocks_of(pair), len(weights)) for pair in result.pairs]
            again = replay_confirm(values, each, parameters, result.calibration, stake)
    except ValueError as error:
        return [f"the pairs cannot be decided on: {error}"]
    findings = []
    differing = _difference(again, decision)
    if differing:
        findings.append(f"its pairs and the stake then give {differing}")
    try:
        findings += _anchor_findings(result, weights)
        denied = _contradicted(result, again, weights)
    except ValueError as error:
        return [*findings, f"its pairs have no value: {error}"]
    outcome, reason = ("ACCEPT", "gain_not_confirmed") if denied else (again.outcome, again.reason)
    findings += _verdict_findings(result, outcome, reason)
    if result.verdict == "KEEP":
        findings += _round_findings(result, again, weights)
    return findings


def _round_findings(result: Result, decision: Decision, weights: Sequence[float]) -> list[str]:
    """Say where a KEEP lacks rounds: it has all, or as many as settle that no other can deny it."""
    rounds = [pair_value(blocks_of(pair), weights) for pair in result.apart]
    if len(rounds) == ROUNDS or (rounds and settled(rounds, decision)):
        return []
    return [
        f"a KEEP takes {ROUNDS} rounds with the arms in separate lifetimes, or fewer where one has "
        "reached the gain's lower bound"
    ]


def _difference(again: Decision, recorded: Decision) -> str:
    """Name every field of two decisions that differs, with both values; empty where none does.

    But for the sentence, which says the numbers in the words of the version that wrote it.
    """
    numbers = (
        (name, getattr(again, name), getattr(recorded, name))
        for name in Decision.model_fields
        if name != "detail"
    )
    return "; ".join(
        f"{name} {given!r}, where {said!r} is recorded"
        for name, given, said in numbers
        if given != said
    )


def _anchor_findings(result: Result, weights: Sequence[float]) -> list[str]:
    if result.op != "confirm":
        return []
    triples = [[(b.record, b.candidate, b.anchor) for b in pair.blocks] for pair in result.pairs]
    again = anchored(triples, weights)
    return [] if again == result.anchored else ["its pairs give other ratios to the anchor"]


def _contradicted(result: Result, decision: Decision, weights: Sequence[float]) -> bool:
    """Say whether a proven gain does not stand with the arms in separate lifetimes."""
    if decision.outcome != "KEEP" or result.calibration is None:
        return False
    rounds = [pair_value(blocks_of(pair), weights) for pair in result.apart]
    return contradiction(rounds, decision, result.calibration) is not None


def _verdict_findings(result: Result, outcome: str, reason: str | None) -> list[str]:
    if result.verdict is None:
        return [] if outcome == "promising" else [f"its pairs decide {outcome}, not promising"]
    if result.reason in _DECIDED and (result.verdict, result.reason) != (outcome, reason):
        return [f"its pairs decide {outcome} {reason}, not {result.verdict} {result.reason}"]
    if result.reason == "fixed_inputs" and outcome != "KEEP":
        return [f"its pairs decide {outcome}, and fixed inputs only withhold a KEEP"]
    if result.verdict == "KEEP" and outcome != "KEEP":
        return [f"its pairs decide {outcome}, not KEEP"]
    return []


def recheck_anchor(result: Result, record_is_anchor: bool) -> list[str]:
    """Return where a confirmation against another record than the seed was not measured beside it."""
    if record_is_anchor or result.anchored is None or result.anchored.record is not None:
        return []
    return ["it was not measured beside the seed, though its record is another"]


def recheck_inputs(result: Result, problem: Problem) -> list[str]:
    """Return where a result does not fit what the problem's inputs allow: no KEEP on fixed ones."""
    names = problem.definition.inputs
    fixed = not any(
        name not in workload.inputs or workload.inputs[name].type in ("random", "custom")
        for workload in problem.workloads
        for name in names
    )
    if result.verdict == "KEEP" and fixed:
        return ["it is a KEEP, though no input of the problem can be redrawn"]
    if result.reason == "fixed_inputs" and not fixed:
        return ["it says fixed_inputs, but inputs of the problem can be redrawn"]
    return []


def stands_for(calibration: Calibration | None, result: Result) -> bool:
    """Say whether a result was decided with the campaign's calibration, where there is one."""
    return calibration is None or result.decision is None or result.calibration == calibration


def overlaps(leases: Sequence[Held]) -> list[tuple[Held, Held]]:
    """Return pairs of leases that held one device of one machine at the same time."""
    found: list[tuple[Held, Held]] = []
    groups: dict[tuple[str, str], list[Held]] = {}
    for held in leases:
        groups.setdefault(held.unit, []).append(held)
    for group in groups.values():
        group.sort(key=lambda held: held.lease.from_ns)
        latest = group[0]
        for held in group[1:]:
            if held.lease.from_ns < latest.lease.to_ns:
                found.append((latest, held))
            latest = max(latest, held, key=lambda one: one.lease.to_ns)
    return found


def blocks_of(pair: PairTimes) -> list[Block]:
    """Return a pair's blocks as the rule takes them."""
    return [(block.record, block.candidate) for block in pair.blocks]
