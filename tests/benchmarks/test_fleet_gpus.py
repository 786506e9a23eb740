"""What measurements of a fleet come to: scaling, agreement, the bank beside neighbours, and the report."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu_aa_report
from benchmarks.campaign_backup import restore
from benchmarks.campaign_time import read_events
from benchmarks.fleet_account import account, scaling
from benchmarks.fleet_agreement import told
from benchmarks.fleet_beside import compared
from benchmarks.fleet_candidates import BANDWIDTH, MATRIX, entries, hand_out, seed_of
from benchmarks.fleet_gpus_report import FALSE_KEEPS, banks, document, read_bank, read_rows
from benchmarks.fleet_interference import STATES, Measured, planned
from benchmarks.fleet_subjects import CASES, known_kernels, true_gain
from benchmarks.fleet_tables import agreeing, agreement_table, scaling_table
from benchmarks.gpu_bank import Unit
from kernelarc_guard.protocol import BlockTimes, Lease, PairTimes, Result

Row = dict[str, Any]
CAMPAIGN = Path(__file__).parents[2] / "docs" / "measurements" / "h200_campaign_third.tar.gz"


def run(
    devices: int,
    ends: list[float],
    held: float = 0.9,
    cost: float = 4.0,
    firsts: dict[str, float] | None = None,
) -> Row:
    """Return a campaign that was run, as far as the tables ask for it."""
    return {
        "problem": "rmsnorm",
        "devices": devices,
        "agents": 8,
        "asked": 20,
        "ready after": 30.0,
        "verify": [],
        "verdicts": len(ends),
        "verdict at": ends,
        "seconds": ends[-1],
        "share held": held,
        "device seconds a verdict": cost,
        "units": {},
        "kinds": {},
        **({"first answer": firsts} if firsts else {}),
    }


def nursery(gains: list[float]) -> Unit:
    """Return pairs of these values (percent) of a kernel with itself, in blocks that differ a little."""
    pairs = []
    for gain in gains:
        times = [round(1e6 * math.exp((gain + 0.01 * block) / 100)) for block in range(8)]
        blocks = [BlockTimes(record=[[one] * 3], candidate=[[1_000_000] * 3]) for one in times]
        pairs.append(PairTimes(record_first=True, blocks=blocks))
    return Unit(
        subject="gemm",
        planted=0,
        cycles=0,
        device="cuda:0",
        at="2026-11-30",
        seconds=1,
        pairs=pairs,
    )


def judged(device: int, verdict: str, repeat: int = 0, case: str = "equal") -> Row:
    """Return a judgement of the agreement study."""
    return {
        "device": device,
        "kernel": "gemm",
        "case": case,
        "true_gain": 0.0,
        "repeat": repeat,
        "verdict": verdict,
        "reason": "why",
        "values": [9.0, 11.0],
    }


def test_a_recorded_campaign_is_accounted_for_to_the_second(tmp_path: Path) -> None:
    found = account(read_events(restore(CAMPAIGN, tmp_path)), 1)
    assert (found["verdicts"], found["outcomes"]["KEEP confirmed"]) == (40, 4)
    (gpu,) = (unit for name, unit in found["units"].items() if name)
    parts = ("measuring", "smoke", "correctness", "held otherwise")
    assert sum(gpu[part] for part in parts) == pytest.approx(gpu["held"], abs=0.1)
    assert gpu["held"] + gpu["not held"] + gpu["idle"] == pytest.approx(found["seconds"], abs=0.1)
    assert found["share held"] == pytest.approx(gpu["held"] / found["seconds"], abs=1e-3)
    assert found["kinds"]["screen"]["count"] == 35 and found["builds"] > 5
    # Lines to beat were measured before the first submission was judged; Triton was not compiled ahead then.
    (first,) = found["first answer"].values()
    assert 0 < first < found["verdict at"][0]
    assert found["ahead"] == {"Triton": 22, "Triton found": 0, "native": 11, "native found": 8}


def test_scaling_is_over_what_both_have_judged_and_not_its_last_verdicts() -> None:
    one = run(1, [float(4 * n) for n in range(1, 21)])
    two = run(2, [float(2 * n) for n in range(1, 20)] + [60.0], held=0.81, cost=4.4)
    assert scaling(one, two, 2) == {
        "verdicts": 19,
        "seconds": [76.0, 38.0],
        "factor": 1.0,
        "warm": None,
        "held as long": 0.9,
        "cost of a verdict": 1.1,
    }
    slow = run(2, [3.0 * n for n in range(1, 6)])
    (row,) = scaling_table([one, slow])
    assert (row["of linear"], row["goal 0.9"]) == (0.667, "**not met**")
    assert row["of linear, once every GPU has judged one"] == "", "an old row does not say"
    assert scaling_table([one]) == [] and "factor" not in scaling(one, run(2, [1.0]), 2)


def test_what_a_device_that_joins_is_late_by_is_left_out_of_the_second_factor() -> None:
    one = run(1, [5.0 + 4 * n for n in range(20)], firsts={"GPU-1": 5.0})
    # The second one joins at 10 s; from then on a verdict takes half as long.
    ends = [5.0, 9.0, *(10.0 + 2 * n for n in range(15))]
    firsts = {"GPU-1": 5.0, "GPU-2": 10.0}
    two = run(2, ends, firsts=firsts)
    (row,) = scaling_table([one, two])
    assert (row["of linear"], row["over so many verdicts"]) == (0.903, 16)
    assert row["of linear, once every GPU has judged one"] == 1.0
    assert row["over so many then"] == 13
    # That answer's own verdict, which is noted a moment later, is none of those since.
    later = [at + 0.01 if at == 10.0 else at for at in ends]
    assert scaling(one, run(2, later, firsts=firsts), 2)["warm"] == scaling(one, two, 2)["warm"]
    # One that has judged nothing was never there.
    assert scaling(one, run(2, ends, firsts={"GPU-1": 5.0}), 2)["warm"] is None
    early = scaling(one, run(2, ends, firsts=firsts | {"GPU-2": 38.0}), 2)
    assert (early["factor"], early["warm"]) == (0.903, None), "too few verdicts are left"


def test_agreement_counts_pairs_of_judgements_between_devices_and_on_one() -> None:
    rows = [
        judged(0, "ACCEPT"),
        judged(0, "REVERT", 1),
        judged(1, "ACCEPT"),
        judged(1, "ACCEPT", 1),
    ]
    rows += [{"device": 1, "kernel": "gemm", "left": "no time"}, judged(0, "KEEP", case="faster")]
    assert agreeing(rows, between=True) == (4, 2)
    assert agreeing(rows, between=False) == (2, 1)
    equal, faster = agreement_table(rows)
    assert equal["GPU 0"] == "1 ACCEPT why, 1 REVERT why"
    assert equal["between GPUs"] == "2 of 4 alike"
    assert (faster["between GPUs"], faster["ratio on GPU 0"]) == ("", "1.105 (0.973 to 1.255)")
    (single,) = agreement_table([judged(0, "REVERT") | {"values": [-20.0]}])
    assert single["ratio on GPU 0"] == "0.819"


def test_ray_is_compared_on_candidates_that_both_judged_alike() -> None:
    local = [{"seconds": s, "reason": "slower", "pairs": 1} for s in (2.0, 4.0, 3.0)]
    far = [
        {"seconds": s, "reason": why, "pairs": pairs}
        for s, why, pairs in ((2.2, "slower", 1), (4.2, "slower", 2), (9.0, "x", 7))
    ]
    found = compared(local, far)
    assert (found["candidates"], found["judged alike"]) == (3, 2)
    assert found["Ray / local, all seconds"] == round(6.4 / 6, 4)
    assert (found["decided by as many pairs"], found["Ray / local of these, all seconds"]) == (
        1,
        1.1,
    )
    assert compared(local, []) == {"candidates": 0, "judged alike": 0}


def test_states_of_the_neighbours_take_turns_in_being_first() -> None:
    order = list(planned(["a", "b"], 2))
    assert order[:4] == [("a", "idle"), ("a", "busy"), ("b", "idle"), ("b", "busy")]
    assert order[4:] == [("a", "busy"), ("a", "idle"), ("b", "busy"), ("b", "idle")]


def test_candidates_are_the_same_each_time_and_each_has_its_agent(tmp_path: Path) -> None:
    for name in (BANDWIDTH, MATRIX):
        chosen = entries(name, False, 20)
        assert chosen == entries(name, False, 20) and len({one.source for one in chosen}) == 20
        seed = seed_of(name, False)
        assert seed is not None
        assert all(seed.sources[0].content != one.source for one in chosen)
        folders = hand_out(chosen, 8, tmp_path / name)
        assert [len(list(folder.iterdir())) for folder in folders] == [3, 3, 3, 3, 2, 2, 2, 2]
        for path in folders[0].iterdir():
            assert path.read_text().splitlines()[0].endswith(" ---")
    with pytest.raises(ValueError, match="were asked for"):
        entries(MATRIX, False, 1000)


def test_every_kernel_has_cases_with_a_known_truth_and_one_that_is_wrong() -> None:
    gains = [true_gain(case) for case in CASES]
    assert gains == [25.0, 13.64, 0.0, -10.71, -37.5, None]
    for one in known_kernels(False, []):
        assert one.spoiled().sources != one.plain.sources
        assert "< 100LL" in one.delayed(10.0, 10.0).sources[0].content
    for one in known_kernels(True, []):
        assert "gain:13.64" in one.delayed(10.0, 0.0).sources[0].content


def test_an_answer_without_pairs_has_no_ratio() -> None:
    lease = Lease(device="cuda:0", from_ns=0, to_ns=1, unit="GPU-1")
    one = Result(
        id="s",
        op="screen",
        verdict="REVERT",
        reason="wrong_result",
        stage="correctness",
        lease=lease,
    )
    row = told(one)
    assert (row["verdict"], row["ratio"], row["unit"]) == ("REVERT", None, "GPU-1")


def test_a_report_says_what_was_measured_and_what_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CAMPAIGNS", "POOL"):
        monkeypatch.setattr(gpu_aa_report, name, 10)
    lines = [
        Measured(
            state=state, unit=nursery([0.1, -0.1, 0.05, -0.05] * 6), load={"gpu 1: products": r}
        )
        for state, r in zip(STATES, (0.0, 700.0), strict=True)
    ]
    text = "".join(one.model_dump_json() + "\n" for one in lines)
    (tmp_path / "interference.jsonl").write_text(text)
    (tmp_path / "throughput.json").write_text(json.dumps([run(1, [1.0, 2.0]), run(2, [1.0, 1.1])]))
    bank = read_bank([tmp_path, tmp_path / "nothing"])
    assert set(banks(bank)) == {("gemm", "idle"), ("gemm", "busy")}
    report, tables = document(
        read_rows([tmp_path], "throughput"), [], bank, ["gemm, busy: no time for 2"], [], 200
    )
    (calibrated_idle,) = (
        row for row in tables[FALSE_KEEPS] if row["neighbours"].startswith("calibrated idle")
    )
    assert calibrated_idle["KEEP"] == 0 and calibrated_idle["upper 95 % bound %"] == 1.5
    assert "| gemm | busy |" in report and "700.0" in report
    assert "* gemm, busy: no time for 2" in report
    assert "* Verdicts of identical candidates: not measured" in report
    assert FALSE_KEEPS not in document([], [], bank, [], [], 0)[0]
    assert report.count("**Not measured.**") == 5
