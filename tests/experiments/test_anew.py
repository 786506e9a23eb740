"""What is kept of a record that is measured again."""

from pathlib import Path

from kernelarc_guard.protocol import Compare, Result
from kernelarc_mcp.experiments.anew import FILE, Measured, measured, read_anew

SAID = "with spiked values: output y at [3, 5]: got 1, wanted 2, off by 1 where 0.1 is allowed"


def test_a_record_that_fails_is_kept_with_what_the_guard_said_of_it(tmp_path: Path) -> None:
    result = Result(
        id="a",
        op="compare",
        verdict="REVERT",
        reason="wrong_result",
        stage="timing",
        detail=SAID,
    )
    one = measured(Compare.model_construct(), result)
    assert (one.ratio, one.failed, one.detail) == (None, "wrong_result", SAID)
    (tmp_path / FILE).write_text(f'{{"d": {one.model_dump_json()}}}')
    assert read_anew(tmp_path) == {"d": one}


def test_a_file_from_before_details_were_kept_is_read(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"d": {"ratio": null, "failed": "crashed", "at": "x"}}')
    assert read_anew(tmp_path) == {"d": Measured(ratio=None, failed="crashed", at="x")}
