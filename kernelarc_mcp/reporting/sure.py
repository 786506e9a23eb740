"""How sure a report is: what each number promises, and what it does not."""

from datetime import UTC, datetime

from kernelarc_mcp.reporting.ahead import named, undecided
from kernelarc_mcp.reporting.document import Document

_SHOWN = 12
"""Tickets named in a sentence."""
_FEW = 20
"""Fewer canaries cannot tell a sound device from one that is not."""


def sure_lines(document: Document) -> list[str]:
    """Return a sentence or more for each promise, then for what it rests on."""
    lines = [
        _error(document),
        *_gain(document),
        *_over_seed(document),
        *_power(document),
        "Each number is from pairs of new processes, record beside candidate on the same inputs, a coin"
        " deciding which starts first; only a confirmation on new pairs is published, and the seed runs"
        " along in it.",
        _correct(document),
        *_noise(document),
        _canaries(document),
    ]
    if document.quarantined:
        lines.append(f"The device is in quarantine: {document.quarantined}")
    lines.append(_verified(document))
    lines.append(
        "Not said: that the gain holds on another device, driver or shape, nor that rare slow calls do"
        " not exist."
    )
    return lines


def _error(document: Document) -> str:
    rule = document.parameters
    return (
        f"Faster than the record before: a KEEP says that the candidate's typical process is faster by"
        f" more than {_delta(document):.4g} %. The chance that this campaign ever says so of a candidate"
        f" that is not is at most {100 * rule.wealth:.3g} %, whatever was submitted and however often."
    )


def _delta(document: Document) -> float:
    calibration = document.calibration
    return max(document.parameters.delta, calibration.delta if calibration is not None else 0.0)


def _gain(document: Document) -> list[str]:
    best, stake = document.record, document.record_stake
    if best.gain is None or best.lower is None or stake is None:
        return []
    return [
        f"By how much: {best.submission} measured {best.gain:.3f} times as fast as the record before it;"
        f" more than {best.lower:.3f} times is proven with {100 * (1 - stake):.4g} % confidence, all looks"
        " of its confirmation counted."
    ]


def _over_seed(document: Document) -> list[str]:
    over = document.record.over_seed
    if over is None:
        return []
    return [
        f"Over the seed: {over.ratio:.3f} times, 95 % interval {over.lower:.3f} to {over.upper:.3f}, by"
        f" Student's t over the {over.pairs} pairs of that confirmation that had the seed beside them. It is"
        " not corrected for selection:"
        " a confirmation ends as soon as it has proven a gain, and the record is the best of"
        f" {document.attempts_used} attempts, so this number may be somewhat high. Of the two promises above"
        " the first is corrected for all attempts, the second for the looks of its own confirmation."
    ]


def _power(document: Document) -> list[str]:
    calibration = document.calibration
    if calibration is None or calibration.resolution is None:
        return []
    missed = undecided(document)
    count = f"{len(missed)} attempt{'' if len(missed) == 1 else 's'}"
    told = "no attempt measured between 0 and that without becoming the record"
    if missed:
        told = f"{count} measured between 0 and that and became no record ({named(missed, _SHOWN)})"
    return [
        f"What may have been missed: gains below {calibration.resolution:.3g} % over the record, by the"
        f" noise at the end; {told}."
    ]


def _correct(document: Document) -> str:
    around = ", ".join(f"{name} {value}" for name, value in document.protection.items())
    return (
        "Every timed output was compared with a reference in float64 or with the other arm's, on inputs"
        f" that no candidate had seen; candidates ran in a sandbox: {around or 'nothing was judged yet'}."
    )


def _noise(document: Document) -> list[str]:
    view = document.calibration_view
    if view is None:
        return ["Noise: not calibrated yet."]
    at = datetime.fromisoformat(view.at).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    since = ""
    if view.spread_pairs is not None:
        since = f", planned with since by {view.spread_pairs} later ones of the record with itself"
    said = (
        f"Noise: calibrated {at} with {view.pairs} pairs of a kernel with itself{since}; such pairs differ"
        f" by {view.sd_percent:.4g} % (standard deviation)."
    )
    return [said, *(f"Warning: {warning}" for warning in view.warnings)]


def _canaries(document: Document) -> str:
    seen = document.canaries
    if not seen.same and not seen.delayed:
        return (
            "No canary ran since the last calibration: that the device calls equal kernels equal was not"
            " tried during the search."
        )
    said = (
        "Canaries since the last calibration: the record against itself was called different at the 5 %"
        f" level {seen.same_hits} of {seen.same} times (95 % interval of that rate:"
        f" {_bounds(seen.same_bounds)}; 5 % is right)"
    )
    if seen.delayed:
        said += f"; planted delays seen {seen.delayed_seen} of {seen.delayed} times"
        said += f" ({_bounds(seen.delayed_bounds)})"
    few = " So few say little." if seen.same + seen.delayed < _FEW else ""
    return f"{said}.{few}"


def _bounds(bounds: tuple[float, float]) -> str:
    return f"{100 * bounds[0]:.3g} to {100 * bounds[1]:.3g} %"


def _verified(document: Document) -> str:
    if document.findings:
        return (
            f"verify does NOT agree with the recorded rows: {len(document.findings)} findings, the first:"
            f" {document.findings[0]}"
        )
    return (
        "verify: every counter and verdict was computed again from the recorded rows and call times when"
        " this report was written; all agree."
    )
