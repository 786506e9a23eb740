"""What an experiment shows so far, as one document; page and texts are made from it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import combinations

import numpy as np

from kernelarc_guard.model import Model
from kernelarc_guard.rule import Number
from kernelarc_mcp import __version__
from kernelarc_mcp.experiments.anew import Measured
from kernelarc_mcp.experiments.file import Arm, Experiment
from kernelarc_mcp.experiments.outcome import Outcome
from kernelarc_mcp.experiments.statistics import Mean, Paired, geometric_mean, interval, paired


class Curve(Model):
    """The best record over the seed after so many verdicts, over an arm's finished runs."""

    mean: list[Number]
    """Geometric means; place n is after n verdicts, so the first is 1."""
    lower: list[Number]
    upper: list[Number]
    """95 %, by bootstrap over runs; empty for fewer than two of them."""


class ArmSummary(Model):
    """One arm."""

    arm: Arm
    finished: int
    runs: int
    """That were asked for."""
    speedup: Mean | None
    """Final, over the seed; of the finished runs only. None where there is none."""
    ratio: Mean | None
    """Over the first arm's, seed by seed."""
    curve: Curve | None
    verdicts: dict[str, int]
    """Of the finished runs, as the next ones."""
    judged: int
    drafts: int
    conclusions: int
    device_seconds: float

    def line(self) -> str:
        """Return the arm in one line."""
        done = f"{self.finished} of {self.runs} runs"
        if self.speedup is None:
            return f"{self.arm.name}: {done}"
        return f"{self.arm.name}: {done}, {self.speedup.value:.3f}x the seed{spread(self.speedup)}"


class Summary(Model):
    """The whole experiment; scripts read this, so fields are only added."""

    experiment: Experiment
    version: str
    written_at: str
    devices: list[str]
    complete: bool
    measured_anew: bool
    """Whether all speedups are from one sitting after the runs, instead of each run's own."""
    measured_at: str
    """When that sitting began; else empty."""
    arms: list[ArmSummary]
    pairs: list[Paired]
    """Every arm with every other that is after it in the file, the later one over the earlier."""
    outcomes: list[Outcome]


def spread(mean: Mean | Paired) -> str:
    """Return an interval in words; empty where there is none."""
    if mean.lower is None or mean.upper is None:
        return ""
    return f" ({mean.lower:.3f} to {mean.upper:.3f})"


def with_anew(outcome: Outcome, anew: Mapping[str, Measured]) -> Outcome:
    """Return a run with its records' speedups as measured again."""
    steps = [
        step.model_copy(update={"speedup": known.ratio.ratio})
        for step in outcome.records
        if (known := anew[step.digest]).ratio is not None
    ]
    return outcome.model_copy(
        update={"records": steps, "speedup": steps[-1].speedup if steps else 1.0}
    )


def summarise(
    experiment: Experiment, outcomes: Sequence[Outcome], anew: Mapping[str, Measured]
) -> Summary:
    """Return what the runs show; those that are not finished are listed and count for nothing.

    `anew`: what was measured again, which counts once it is there for every finished run's records.
    """
    needed = {s.digest for one in outcomes if one.state == "finished" for s in one.records}
    complete = bool(needed) and needed <= anew.keys()
    if complete:
        known = [one for one in outcomes if all(s.digest in anew for s in one.records)]
        outcomes = [with_anew(one, anew) if one in known else one for one in outcomes]
    by_arm = {
        arm.name: [one for one in outcomes if one.arm == arm.name and one.state == "finished"]
        for arm in experiment.arms
    }
    speeds = {name: {one.seed: one.speedup for one in done} for name, done in by_arm.items()}
    first = experiment.arms[0].name
    pairs = [
        paired(b.name, speeds[b.name], a.name, speeds[a.name])
        for a, b in combinations(experiment.arms, 2)
    ]
    return Summary(
        experiment=experiment,
        version=__version__,
        written_at=datetime.now(UTC).isoformat(timespec="seconds"),
        devices=sorted({one.device for one in outcomes if one.device}),
        complete=all(one.state == "finished" for one in outcomes),
        measured_anew=complete,
        measured_at=min((anew[digest].at for digest in needed), default="") if complete else "",
        arms=[
            _arm(arm, by_arm[arm.name], experiment, speeds[first], arm.name == first)
            for arm in experiment.arms
        ],
        pairs=[pair for pair in pairs if pair is not None],
        outcomes=list(outcomes),
    )


def _arm(
    arm: Arm, done: list[Outcome], experiment: Experiment, first: dict[int, float], is_first: bool
) -> ArmSummary:
    ratios = [one.speedup / first[one.seed] for one in done if one.seed in first]
    return ArmSummary(
        arm=arm,
        finished=len(done),
        runs=experiment.runs,
        speedup=geometric_mean([one.speedup for one in done]) if done else None,
        ratio=geometric_mean(ratios) if ratios and not is_first else None,
        curve=curve_of(done, experiment.attempts) if done else None,
        verdicts={v: sum(one.verdicts.get(v, 0) for one in done) for v in _verdicts(done)},
        judged=sum(one.judged for one in done),
        drafts=sum(one.drafts for one in done),
        conclusions=sum(one.conclusions for one in done),
        device_seconds=sum(one.device_seconds for one in done),
    )


def _verdicts(done: list[Outcome]) -> list[str]:
    return sorted({verdict for one in done for verdict in one.verdicts})


def curve_of(done: Sequence[Outcome], attempts: int) -> Curve:
    """Return the curve of finished runs; one that had nothing left to try stays where it ended."""
    rows = []
    for one in done:
        best = one.best()[: attempts + 1]
        rows.append(best + [best[-1]] * (attempts + 1 - len(best)))
    logs = np.log(np.array(rows))
    lower, upper = interval(logs)
    several = len(rows) > 1
    return Curve(
        mean=np.exp(logs.mean(axis=0)).tolist(),
        lower=np.exp(lower).tolist() if several else [],
        upper=np.exp(upper).tolist() if several else [],
    )
