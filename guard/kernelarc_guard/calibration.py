"""A short calibration: what the noise of a problem on a device is, from A/A pairs of one nursery."""

import math
from collections.abc import Sequence
from statistics import fmean, variance

from kernelarc_guard.pairs import middle_mean
from kernelarc_guard.rule import Calibration, Parameters


def calibrate_from(
    device: str,
    problem_digest: str,
    at: str,
    pair_blocks: Sequence[Sequence[float]],
    pair_seconds: float,
    block_seconds: float,
    parameters: Parameters,
) -> Calibration:
    """Estimate the noise from pairs that compared a solution with itself.

    `pair_blocks` has the block values (percent) of each pair, at least two pairs; `pair_seconds`
    is what starting a pair costs and `block_seconds` what one block over all workloads costs.
    """
    count = len(pair_blocks)
    if count < 2:
        raise ValueError(f"a calibration needs two pairs or more, not {count}")
    ratio = _cheapest_blocks(pair_blocks, pair_seconds, block_seconds)
    confirm = round(min(max(ratio, 1.0), float(parameters.blocks_confirm)))
    screen = min(parameters.blocks_screen, confirm)
    values = [middle_mean(blocks[:confirm]) for blocks in pair_blocks]
    sd_screen = math.sqrt(variance([middle_mean(blocks[:screen]) for blocks in pair_blocks]))
    sd_confirm = math.sqrt(variance(values)) * _upper_factor(count, parameters.sd_confidence)
    return Calibration(
        device=device,
        problem=problem_digest,
        at=at,
        pairs=count,
        blocks_screen=screen,
        blocks_confirm=confirm,
        sd_screen=max(sd_screen, parameters.least_sd),
        sd_confirm=max(sd_confirm, parameters.least_sd),
        delta=parameters.delta,
        mean=fmean(values),
        values=values,
        note=_note(values),
    )


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


def _upper_factor(count: int, confidence: float) -> float:
    """Return what a sample sd of `count` values is multiplied with to bound the true one."""
    from scipy.special import gammaincinv

    freedom = count - 1
    chi_square = 2 * float(gammaincinv(freedom / 2, 1 - confidence))
    return math.sqrt(freedom / chi_square)


def _note(values: Sequence[float]) -> str:
    parts = ["One nursery: a bias shared by all its pairs cannot be seen, delta is not calibrated."]
    mean = fmean(values)
    error = math.sqrt(variance(values) / len(values))
    if abs(mean) > 3 * error and error > 0:
        parts.append(
            f"The mean of identical arms is {mean:+.3f} % with a standard error of {error:.3f} %:"
            " the path may be biased."
        )
    return " ".join(parts)
