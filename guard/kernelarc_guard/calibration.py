"""Calibration: what the noise of a problem on a device is, from A/A pairs of one or more nurseries.

After a KEEP the record is another solution, and what its pairs spread may be another number: that
alone is then taken from pairs of the new record with itself.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, variance

from kernelarc_guard.pairs import middle_mean
from kernelarc_guard.plan import resolution
from kernelarc_guard.ratios import student
from kernelarc_guard.rule import Calibration, Parameters, Rulers, rounded

LEAST_NURSERIES = 3
"""Fewer nurseries say nothing about a bias that all pairs of one share."""
BIAS_COVER = 2.0
"""A KEEP must exceed this many standard deviations (their upper bound) of the shared bias."""
BIAS_TAIL = 0.00135
"""Chance, on each side, that noise alone calls a path biased: that of three standard errors, where
the error is known. From few pairs it is not, and then it takes more of them."""


def calibrate_from(
    device: str,
    problem_digest: str,
    at: str,
    nurseries: Sequence[Sequence[Sequence[float]]],
    pair_seconds: float,
    block_seconds: float,
    parameters: Parameters,
    rulers: Rulers | None = None,
    toolchain: Mapping[str, str] | None = None,
) -> Calibration:
    """Estimate the noise from pairs that compared a solution with itself.

    `nurseries` has the block values (percent), `[nursery][pair][block]`: two pairs or more in all,
    none of the nurseries empty. `pair_seconds` is what starting a pair costs and `block_seconds`
    what one block over all workloads costs. `rulers` and `toolchain` are stored as they are.
    """
    pair_blocks = [blocks for nursery in nurseries for blocks in nursery]
    sizes = [len(nursery) for nursery in nurseries]
    count = len(pair_blocks)
    if count < 2:
        raise ValueError(f"a calibration needs two pairs or more, not {count}")
    if not all(sizes):
        raise ValueError("a nursery of a calibration has no pairs")
    # Rounded first, so that whoever reads them back chooses the same blocks.
    pair_seconds, block_seconds = rounded(pair_seconds), rounded(block_seconds)
    ratio = _cheapest_blocks(pair_blocks, pair_seconds, block_seconds)
    confirm = round(min(max(ratio, 1.0), float(parameters.blocks_confirm)))
    screen = min(parameters.blocks_screen, confirm)
    groups = [[middle_mean(blocks[:confirm]) for blocks in nursery] for nursery in nurseries]
    values = [value for group in groups for value in group]
    sd_screen, sd_confirm = _spreads(pair_blocks, screen, confirm, parameters)
    shared = None
    if len(groups) >= LEAST_NURSERIES:
        shared = shared_bias(groups, parameters.sd_confidence)
    mean, error, chance = fmean(values), *_error_of_mean(groups)
    biased = abs(mean) > chance
    found = Calibration(
        device=device,
        problem=problem_digest,
        at=at,
        pairs=count,
        blocks_screen=screen,
        blocks_confirm=confirm,
        sd_screen=sd_screen,
        sd_confirm=sd_confirm,
        delta=max(parameters.delta, BIAS_COVER * (shared or 0.0)),
        mean=mean,
        values=values,
        nurseries=sizes,
        shared_bias=shared,
        biased=biased,
        note=_note(len(groups), shared, mean, error if biased else None),
        pair_seconds=pair_seconds,
        block_seconds=block_seconds,
        rulers=rulers,
        toolchain=dict(toolchain or {}),
    )
    return found.model_copy(update={"resolution": _first_resolution(found, parameters)})


def respread(
    calibration: Calibration, pair_blocks: Sequence[Sequence[float]], parameters: Parameters
) -> Calibration:
    """Return a calibration with the spread of pairs of a new record with itself.

    `pair_blocks` has their block values (percent), `[pair][block]`, two pairs or more. The spreads
    are what a calibration of these pairs would say, so for few pairs the confirming one is far above
    what they show; the resolution follows. Nothing else changes: so few pairs of one nursery say
    nothing of a bias.
    """
    if len(pair_blocks) < 2:
        raise ValueError(f"a spread needs two pairs or more, not {len(pair_blocks)}")
    screen, confirm = _spreads(
        pair_blocks, calibration.blocks_screen, calibration.blocks_confirm, parameters
    )
    found = calibration.model_copy(
        update={
            "sd_screen": rounded(screen),
            "sd_confirm": rounded(confirm),
            "spread_pairs": len(pair_blocks),
        }
    )
    return found.model_copy(update={"resolution": _first_resolution(found, parameters)})


def _spreads(
    pair_blocks: Sequence[Sequence[float]], screen: int, confirm: int, parameters: Parameters
) -> tuple[float, float]:
    """Return the sd (percent) of screening pairs, and the upper bound of it of confirming ones."""
    screens, confirms = (
        math.sqrt(variance([middle_mean(blocks[:count]) for blocks in pair_blocks]))
        for count in (screen, confirm)
    )
    upper = confirms * upper_factor(len(pair_blocks), parameters.sd_confidence)
    return max(screens, parameters.least_sd), max(upper, parameters.least_sd)


def _first_resolution(calibration: Calibration, parameters: Parameters) -> float:
    return rounded(resolution(parameters, calibration, parameters.wealth * parameters.fraction))


def shared_bias(groups: Sequence[Sequence[float]], confidence: float) -> float:
    """Bound from above the sd (percent) of a bias that all pairs of one nursery share.

    `groups` has the pair values of each nursery, two nurseries or more.
    """
    count, means = len(groups), [fmean(group) for group in groups]
    pairs = sum(len(group) for group in groups)
    mean = fmean(value for group in groups for value in group)
    between = math.fsum(
        len(group) * (own - mean) ** 2 for group, own in zip(groups, means, strict=True)
    ) / (count - 1)
    freedom = pairs - count
    within = math.fsum(
        (value - own) ** 2 for group, own in zip(groups, means, strict=True) for value in group
    )
    # Nurseries of one pair each cannot tell the two apart: then all of it counts as shared.
    within = within / freedom if freedom else 0.0
    size = (pairs - math.fsum(len(group) ** 2 for group in groups) / pairs) / (count - 1)
    upper = between * upper_factor(count, confidence) ** 2
    return math.sqrt(max(upper - within, 0.0) / size)


def upper_factor(count: int, confidence: float) -> float:
    """Return what a sample sd of `count` values is multiplied with to bound the true one."""
    from scipy.special import gammaincinv

    freedom = count - 1
    chi_square = 2 * float(gammaincinv(freedom / 2, 1 - confidence))
    return math.sqrt(freedom / chi_square)


def _cheapest_blocks(
    pair_blocks: Sequence[Sequence[float]], pair_seconds: float, block_seconds: float
) -> float:
    """Return the blocks per pair (a real number) that resolve most per second."""
    if not (pair_seconds > 0 and block_seconds > 0):
        raise ValueError("a pair and a block take time")
    repeated = [blocks for blocks in pair_blocks if len(blocks) > 1]
    freedom = sum(len(blocks) - 1 for blocks in repeated)
    if not freedom:
        return 1.0
    within = math.fsum(variance(b) * (len(b) - 1) for b in repeated) / freedom
    from_blocks = fmean(within / len(blocks) for blocks in pair_blocks)
    between = variance([fmean(blocks) for blocks in pair_blocks]) - from_blocks
    if between <= 0:
        # Pairs differ by no more than their blocks explain: only more blocks help.
        return math.inf if within > 0 else 1.0
    return math.sqrt(within / between * pair_seconds / block_seconds)


def _error_of_mean(groups: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the standard error of the mean of all pairs, and how far chance takes it from zero.

    Both in percent. Pairs of a nursery may lean together: from three nurseries on, they are held to
    be what was drawn independently where that is the wider of the two.
    """
    values = [value for group in groups for value in group]
    drawn = [values, [fmean(group) for group in groups]]
    if len(groups) < LEAST_NURSERIES:
        drawn = [values]
    errors = [math.sqrt(variance(one) / len(one)) for one in drawn]
    bounds = [
        error * student(BIAS_TAIL, len(one) - 1) for error, one in zip(errors, drawn, strict=True)
    ]
    return max(errors), max(bounds)


def _note(nurseries: int, shared: float | None, mean: float, error: float | None) -> str:
    if shared is None:
        many = "One nursery" if nurseries == 1 else f"{nurseries} nurseries"
        parts = [
            f"{many}: a bias shared by all pairs of a nursery cannot be seen, delta is not"
            f" calibrated; {LEAST_NURSERIES} nurseries or more can."
        ]
    else:
        parts = [
            f"A bias shared by all pairs of a nursery has a standard deviation of at most"
            f" {shared:.3f} %, from {nurseries} nurseries."
        ]
    if error is not None:
        parts.append(
            f"The path is biased: identical arms differ by {mean:+.3f} % on average, with a"
            f" standard error of {error:.3f} %. Repair it; a larger delta is no remedy."
        )
    return " ".join(parts)
