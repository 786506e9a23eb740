"""Tools and a prompt that ask by answering with questions, as 2026-07-28 does it."""

import json
from collections.abc import Mapping
from typing import Any

from conformance.adding import add_tool
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
)


def _elicit(message: str, field: str, kind: str = "string") -> ElicitRequest:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _sample(text: str, max_tokens: int) -> CreateMessageRequest:
    asked = SamplingMessage(role="user", content=TextContent(text=text))
    return CreateMessageRequest(
        params=CreateMessageRequestParams(messages=[asked], max_tokens=max_tokens)
    )


NAME = _elicit("What is your name?", "name")
CONFIRM = _elicit("Please confirm", "ok", "boolean")
STEPS = [
    {"step1": _elicit("Step 1: What is your name?", "name")},
    {"step2": _elicit("Step 2: What is your favorite color?", "color")},
]


def add(server: MCPServer[None]) -> None:
    """Add them."""
    asked: list[tuple[str, dict[str, InputRequest], str | None]] = [
        ("elicitation", {"user_name": NAME}, None),
        ("sampling", {"capital_question": _sample("What is the capital of France?", 100)}, None),
        ("list_roots", {"client_roots": ListRootsRequest()}, None),
        ("request_state", {"confirm": CONFIRM}, "asked to confirm"),
        ("tampered_state", {"confirm": CONFIRM}, "sealed by the server"),
        (
            "multiple_inputs",
            {
                "user_name": NAME,
                "greeting": _sample("Generate a greeting", 50),
                "client_roots": ListRootsRequest(),
            },
            "asked three things",
        ),
    ]
    for name, requests, state in asked:
        _add_one_round(server, f"test_input_required_result_{name}", requests, state)
    # Here only the form of the answer matters, not what is answered.
    _add_one_round(server, "test_streaming_elicitation", {"word": NAME}, None)
    add_tool(server, "test_input_required_result_multi_round", _three_rounds)
    add_tool(server, "test_input_required_result_capabilities", _what_the_client_can)
    server.prompt(name="test_input_required_result_prompt")(_prompt)


def _add_one_round(
    server: MCPServer[None], name: str, requests: Mapping[str, InputRequest], state: str | None
) -> None:
    async def ask(context: Context[Any, Any]) -> str | InputRequiredResult:
        """Ask first; answer when all is answered and the state came back."""
        answers = context.input_responses or {}
        if requests.keys() <= answers.keys() and context.request_state == state:
            return f"state-ok: {', '.join(sorted(answers))}"
        return InputRequiredResult(input_requests=dict(requests), request_state=state)

    add_tool(server, name, ask)


async def _three_rounds(context: Context[Any, Any]) -> str | InputRequiredResult:
    """Ask two things one after the other; the state says how far it is."""
    step = int(json.loads(context.request_state or "0"))
    asked = STEPS[step - 1] if step else {}
    if not asked.keys() <= (context.input_responses or {}).keys():
        step = 0
    if step == len(STEPS):
        return "Both steps are answered."
    requests: dict[str, InputRequest] = dict(STEPS[step])
    return InputRequiredResult(input_requests=requests, request_state=json.dumps(step + 1))


async def _what_the_client_can(context: Context[Any, Any]) -> InputRequiredResult:
    """Ask only what the client said that it can answer."""
    able = context.client_capabilities
    requests: dict[str, InputRequest] = {}
    if able is not None and able.sampling is not None:
        requests["greeting"] = _sample("Say hello", 50)
    if able is not None and able.elicitation is not None:
        requests["user_name"] = NAME
    return InputRequiredResult(input_requests=requests, request_state="asked what it can")


async def _prompt(context: Context[Any, Any]) -> str | InputRequiredResult:
    """A prompt that needs to know something first."""
    if "user_context" in (context.input_responses or {}):
        return "Use the context that was given."
    asked = _elicit("What context should the prompt use?", "context")
    return InputRequiredResult(input_requests={"user_context": asked})
