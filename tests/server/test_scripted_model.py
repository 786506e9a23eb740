"""The stand-in for a model: what the three clients send is read, and an agent's script is followed."""

import json
from typing import Any

import pytest

from benchmarks.real_clients import without_timeouts
from benchmarks.scripted_model.dialects import Anthropic, Dialect, Google, OpenAI
from benchmarks.scripted_model.optimiser import ATTEMPTS, optimiser
from benchmarks.scripted_model.story import Answer, Call, next_call, read_answer
from kernelarc_guard.problem import read_problem
from kernelarc_mcp.data import data_dir

SAID = json.dumps({"state": "done"})
CLAUDE = {
    "tools": [{"name": "Bash"}, {"name": "mcp__kernelarc__get_brief"}],
    "messages": [
        {"role": "user", "content": "go"},
        {"role": "user", "content": [{"type": "tool_result", "content": SAID}]},
        {"role": "user", "content": [{"type": "tool_result", "content": [{"text": SAID}]}]},
    ],
}
CODEX = {
    "tools": [{"name": "mcp__kernelarc", "tools": [{"name": "get_brief"}]}, {"name": "exec"}],
    "input": [
        {"type": "message"},
        {"type": "function_call_output", "output": f"Wall time: 0.1 seconds\nOutput:\n{SAID}"},
        {"type": "function_call_output", "output": [{"type": "input_text", "text": SAID}]},
    ],
}
GEMINI = {
    "tools": [{"functionDeclarations": [{"name": "mcp_kernelarc_get_brief"}, {"name": "glob"}]}],
    "contents": [
        {"parts": [{"text": "go"}]},
        *[
            {"parts": [{"functionResponse": {"response": {"output": f"<x>\n{SAID}\n</x>"}}}]}
            for _ in range(2)
        ],
    ],
}


@pytest.mark.parametrize(
    ("dialect", "request_body"),
    [(Anthropic(), CLAUDE), (OpenAI(), CODEX), (Google(), GEMINI)],
)
def test_tools_and_answers_are_read_and_a_call_is_written(
    dialect: Dialect, request_body: dict[str, Any]
) -> None:
    heard = dialect.hear(request_body, "kernelarc")
    assert heard.tools == {"get_brief"}
    assert heard.answers == [{"state": "done"}] * 2
    call = Call("wait_submission", {"ticket": "s001"})
    said = "".join(dialect.say(request_body, "kernelarc", call, 1))
    assert "wait_submission" in said and "s001" in said
    assert "wait_submission" not in "".join(dialect.say(request_body, "kernelarc", None, 1))


def test_a_refusal_is_an_answer_too() -> None:
    assert read_answer("wait_submission: no {such ticket") == {
        "text": "wait_submission: no {such ticket"
    }


def test_the_script_waits_with_a_new_turn_each_time_and_ends_at_the_board() -> None:
    definition = read_problem(data_dir("kernels") / "rmsnorm").definition
    tensors = [
        [{"name": name, "shape": ["n"], "dtype": str(spec.dtype)} for name, spec in group.items()]
        for group in (definition.inputs, definition.outputs)
    ]
    brief = {
        "problem": "rmsnorm",
        "inputs": tensors[0],
        "outputs": tensors[1],
        "reference": definition.reference,
    }
    queued, done = {"state": "queued", "ticket": "s1"}, {"state": "done", "verdict": "KEEP"}
    answers: list[Answer] = [brief, {}, {}, done, queued, queued, queued, done, {}, {"rows": []}]
    calls = [next_call(optimiser(0), answers[:count]) for count in range(len(answers) + 1)]
    assert calls.pop() is None
    made = [call for call in calls if call is not None]
    assert [call.tool for call in made if call.tool != "wait_submission"] == [
        "get_brief",
        "get_strategy_lens",
        "read_memory",
        *["submit_candidate"] * ATTEMPTS,
        "write_conclusion",
        "view_leaderboard",
    ]
    turns = [call.arguments["turn"] for call in made if call.tool == "wait_submission"]
    assert turns == [1, 2, 3]
    assert made[-2].arguments["kind"] == "win"


def test_timeouts_can_be_left_out_of_what_connect_wrote() -> None:
    assert without_timeouts('{"a": 1,\n  "timeout": 600000\n}') == '{"a": 1\n}'
    assert without_timeouts("url = 1\ntool_timeout_sec = 600\n") == "url = 1\n"
