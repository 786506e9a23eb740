"""The anchor's arm, planted delays and lives apart, through a real guard process."""

import json
from pathlib import Path

from guard_process import REFERENCE, SCHEDULE, SLOW, Guard, problem, python

from kernelarc_guard.apart import ROUNDS
from kernelarc_guard.protocol import Refusal, Result
from kernelarc_guard.ratios import anchored

FASTER = "import torch\n\ndef run(x, scale):\n    return torch.tanh(x).mul_(scale)\n"
WRONG_LATER = """import torch

calls = 0

def run(x, scale):
    global calls
    calls += 1
    return torch.tanh(x) * (scale if calls < 3 else 0.5)
"""


def confirm(guard: Guard, **more: object) -> Result | Refusal:
    calibration = {
        "device": "cpu",
        "problem": "p",
        "at": "2026-01-01T00:00:00+00:00",
        "pairs": 8,
        "blocks_screen": 1,
        "blocks_confirm": 1,
        "sd_screen": 5.0,
        "sd_confirm": 5.0,
        "delta": 0.3,
        "mean": 0.0,
        "values": [0.0, 0.1],
        "rulers": {
            "empty_window_ns": 1_000,
            "write_bytes_per_second": 1e12,
            "copy_bytes_per_second": 1e12,
        },
    }
    request = {"calibration": calibration, "stake": 0.01 / 16, "record": python(SLOW)}
    return guard.answer("confirm", **(request | more))


def compare(guard: Guard, cache: Path, **more: object) -> Result:
    request = {"id": "r1", "op": "compare", "cache_dir": str(cache), "schedule": SCHEDULE}
    answer = guard.send(json.dumps(request | {"problem": problem()} | more).encode())
    assert isinstance(answer, Result), answer
    return answer


def test_a_confirmation_measures_both_arms_beside_the_anchor(guard: Guard) -> None:
    result = confirm(guard, candidate=python(REFERENCE), anchor=python(SLOW + "\n# the seed\n"))
    assert isinstance(result, Result) and result.verdict == "KEEP", result
    assert result.anchored is not None and result.anchored.record is not None
    # SLOW does about forty times the work; the record is the anchor but for a comment.
    assert result.anchored.candidate.ratio > 1.5 * result.anchored.record.ratio
    block = result.pairs[0].blocks[0]
    assert [sum(one is not None for one in calls) for calls in block.anchor] == [2, 2]
    assert [len(calls) for calls in block.anchor] == [len(calls) for calls in block.record]
    assert all(b.anchor for pair in result.pairs for b in pair.blocks)
    assert result.anchored.candidate.pairs == len(result.pairs)
    triples = [[(b.record, b.candidate, b.anchor) for b in pair.blocks] for pair in result.pairs]
    assert anchored(triples, [1.0, 1.0]) == result.anchored
    assert 1 <= len(result.apart) <= ROUNDS


def test_without_an_anchor_the_record_is_it(guard: Guard) -> None:
    result = confirm(guard, candidate=python(REFERENCE))
    assert isinstance(result, Result) and result.anchored is not None and result.decision
    assert result.anchored.record is None
    assert abs(result.anchored.candidate.ratio / result.decision.speedup - 1) < 1e-6
    assert result.pairs[0].blocks[0].anchor == []


def test_a_refusal_says_whose_fault_it_is(guard: Guard) -> None:
    record = confirm(guard, record=python(WRONG_LATER), candidate=python(FASTER))
    assert isinstance(record, Refusal) and record.code == "record_failed", record
    anchor = confirm(guard, candidate=python(FASTER), anchor=python(WRONG_LATER))
    assert isinstance(anchor, Refusal) and anchor.code == "anchor_failed", anchor


def test_a_comparison_decides_nothing_and_sees_a_planted_delay(
    guard: Guard, tmp_path: Path
) -> None:
    request = {"record": python(SLOW), "candidate": python(SLOW), "pairs": 3}
    result = compare(guard, tmp_path, **request, planted=70.0)
    assert (result.verdict, result.reason, result.decision) == (None, None, None)
    assert len(result.pairs) == 3
    large = [block for pair in result.pairs for block in pair.blocks]
    assert sum(min(b.candidate[1]) > min(b.record[1]) for b in large) >= 2


def test_a_comparison_says_when_its_candidate_fails(guard: Guard, tmp_path: Path) -> None:
    request = {"record": python(REFERENCE), "candidate": python(WRONG_LATER), "pairs": 2}
    result = compare(guard, tmp_path, **request)
    assert (result.verdict, result.reason) == ("REVERT", "wrong_result")


def test_a_comparison_may_ask_first_whether_its_candidate_is_right(
    guard: Guard, tmp_path: Path
) -> None:
    request = {"record": python(SLOW), "pairs": 2, "checked": True}
    right = compare(guard, tmp_path, **request, candidate=python(REFERENCE))
    assert right.verdict is None and len(right.pairs) == 2
    assert [right.stages[stage].state for stage in ("smoke", "correctness")] == ["passed"] * 2
    wrong = compare(guard, tmp_path, **request, candidate=python(WRONG_LATER))
    assert (wrong.verdict, wrong.stage, wrong.pairs) == ("REVERT", "correctness", [])
