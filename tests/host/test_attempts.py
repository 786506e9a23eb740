"""What a state keeps of submissions: all of it, in order, in little room."""

import pickle
from dataclasses import replace

import pytest
from stories import Story

from kernelarc_mcp.host.attempts import Attempts


def test_a_settled_submission_is_found_as_it_was_left() -> None:
    story = Story()
    first, second, third = (story.submit("ada") for _ in range(3))
    for screen in ("wrong", "promising"):
        story.judge(story.claim(), screen)
    attempts = story.state.attempts
    assert attempts[third] is story.state.unsettled[third]
    left = attempts[second]
    assert (left.verdict, left.reason, left.number) == ("KEEP", "confirmed", 2)
    assert left.screen is not None and left.confirmation is not None
    assert list(attempts) == [first, second, third]
    assert [one.ticket for one in attempts.values()] == [first, second, third]
    assert [one.ticket for one in reversed(attempts.values())] == [third, second, first]
    assert list(reversed(attempts)) == [third, second, first]
    assert len(attempts) == 3 and first in attempts and "other" not in attempts


def test_a_settled_submission_that_was_changed_and_kept_is_found_changed() -> None:
    story = Story()
    tickets = [story.submit("ada") for _ in range(2)]
    for _ in tickets:
        story.judge(story.claim(), "wrong")
    attempts = story.state.attempts
    for ticket in tickets:
        before = attempts[ticket]
        attempts.keep(replace(before, last_seq=before.last_seq + 1))
        assert attempts[ticket].last_seq == before.last_seq + 1
        assert attempts[ticket] == next(one for one in attempts.values() if one.ticket == ticket)


def test_a_request_is_found_with_its_agent_and_comes_once() -> None:
    story = Story()
    plain = story.state.attempts[story.submit("ada")]
    attempts = Attempts()
    attempts.add(replace(plain, ticket="s1", request_id="r"))
    attempts.add(replace(plain, ticket="s2", request_id="r", agent="bob"))
    attempts.add(replace(plain, ticket="s3", request_id=""))
    attempts.add(replace(plain, ticket="s4", request_id=""))
    assert attempts.requested("ada", "r") == "s1" and attempts.requested("bob", "r") == "s2"
    assert attempts.requested("ada", "other") is None and attempts.requested("ada", "") is None
    for twice in (replace(plain, ticket="s1"), replace(plain, ticket="s5", request_id="r")):
        with pytest.raises(ValueError, match="there before"):
            attempts.add(twice)
    assert len(attempts) == 4


def test_what_no_row_can_hold_is_not_found() -> None:
    attempts = Story().state.attempts
    assert attempts.get("s\ud800") is None and attempts.requested("ada", "\ud800") is None
    assert "s\ud800" not in attempts


def test_settled_submissions_take_a_fraction_of_their_size() -> None:
    story = Story()
    plain = story.state.attempts[story.submit("ada")]
    attempts = Attempts()
    whole = 0
    for number in range(500):
        reason = ("wrong_result", "slower", "build_failed")[number % 3]
        attempt = replace(plain, ticket=f"s{number:03d}", number=number)
        attempt.request_id, attempt.reason = f"request-{number}", reason
        attempt.state, attempt.verdict = "done", "REVERT"
        attempts.add(attempt)
        attempts.keep(attempt)
        whole += len(pickle.dumps(attempt))
        assert attempts[attempt.ticket] == attempt
    assert attempts.size < whole / 5
