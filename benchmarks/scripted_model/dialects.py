"""The three model APIs as the clients speak them: the conversation read, the next turn written."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.scripted_model.story import Answer, Call, read_answer

Json = dict[str, Any]


@dataclass(frozen=True)
class Heard:
    """What a client told its model."""

    tools: frozenset[str]
    """Names of the server's tools, without the client's prefix."""
    answers: list[Answer]
    text: str
    """Everything, as one text: system prompt, tools, messages."""


class Dialect(Protocol):
    """One API: how its requests are read and how its replies look."""

    def hear(self, body: Json, server: str) -> Heard:
        """Read a request; `server` is the name the MCP server has in the client."""

    def say(self, body: Json, server: str, call: Call | None, turn: int) -> Iterator[str]:
        """Yield the events of a streamed reply: one tool call, or the end."""


class Anthropic:
    """The Messages API, as Claude Code uses it."""

    def hear(self, body: Json, server: str) -> Heard:
        """Read a request of the Messages API."""
        prefix = f"mcp__{server}__"
        names = (str(tool.get("name", "")) for tool in body.get("tools", []))
        answers = []
        for message in body.get("messages", []):
            content = message.get("content")
            for part in content if isinstance(content, list) else []:
                if part.get("type") == "tool_result":
                    answers.append(read_answer(_text(part.get("content"))))
        return Heard(_stripped(names, prefix), answers, json.dumps(body))

    def say(self, body: Json, server: str, call: Call | None, turn: int) -> Iterator[str]:
        """Yield the events of a streamed message."""
        start = {"id": f"msg_{turn}", "type": "message", "role": "assistant", "content": []}
        usage = {"input_tokens": 10, "output_tokens": 1}
        about = {"model": body.get("model"), "stop_reason": None, "usage": usage}
        yield _event("message_start", message=start | about)
        if call is None:
            block: Json = {"type": "text", "text": ""}
            delta: Json = {"type": "text_delta", "text": "done"}
        else:
            name = f"mcp__{server}__{call.tool}"
            block = {"type": "tool_use", "id": f"toolu_{turn}", "name": name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(call.arguments)}
        yield _event("content_block_start", index=0, content_block=block)
        yield _event("content_block_delta", index=0, delta=delta)
        yield _event("content_block_stop", index=0)
        reason = {"stop_reason": "end_turn" if call is None else "tool_use", "stop_sequence": None}
        yield _event("message_delta", delta=reason, usage={"output_tokens": 5})
        yield _event("message_stop")


class OpenAI:
    """The Responses API, as Codex uses it."""

    def hear(self, body: Json, server: str) -> Heard:
        """Read a request of the Responses API."""
        names: list[str] = []
        for tool in body.get("tools", []):
            if tool.get("name") == f"mcp__{server}":
                names += [str(inner.get("name", "")) for inner in tool.get("tools", [])]
        answers = [
            read_answer(_text(item.get("output")))
            for item in body.get("input", [])
            if str(item.get("type", "")).endswith("call_output")
        ]
        return Heard(frozenset(names), answers, json.dumps(body))

    def say(self, body: Json, server: str, call: Call | None, turn: int) -> Iterator[str]:
        """Yield the events of a streamed response."""
        identity = f"resp_{turn}"
        if call is None:
            said = [{"type": "output_text", "text": "done"}]
            item: Json = {
                "type": "message",
                "role": "assistant",
                "id": f"msg_{turn}",
                "content": said,
            }
        else:
            item = {
                "type": "function_call",
                "id": f"fc_{turn}",
                "call_id": f"call_{turn}",
                "namespace": f"mcp__{server}",
                "name": call.tool,
                "arguments": json.dumps(call.arguments),
            }
        usage = {
            "input_tokens": 10,
            "input_tokens_details": None,
            "output_tokens": 5,
            "output_tokens_details": None,
            "total_tokens": 15,
        }
        yield _event("response.created", response={"id": identity})
        yield _event("response.output_item.added", output_index=0, item=item)
        yield _event("response.output_item.done", output_index=0, item=item)
        yield _event("response.completed", response={"id": identity, "usage": usage})


class Google:
    """The Gemini API, as Gemini CLI uses it."""

    def hear(self, body: Json, server: str) -> Heard:
        """Read a request of the Gemini API."""
        declared = [
            f for tool in body.get("tools", []) for f in tool.get("functionDeclarations", [])
        ]
        names = (str(function.get("name", "")) for function in declared)
        answers = []
        for content in body.get("contents", []):
            for part in content.get("parts", []):
                if "functionResponse" in part:
                    response = part["functionResponse"].get("response", {})
                    answers.append(read_answer(str(response.get("output", response))))
        return Heard(_stripped(names, f"mcp_{server}_"), answers, json.dumps(body))

    def say(self, body: Json, server: str, call: Call | None, turn: int) -> Iterator[str]:
        """Yield the one event of a streamed reply."""
        yield f"data: {json.dumps(self.reply(server, call))}\n\n"

    def reply(self, server: str, call: Call | None) -> Json:
        """Return a reply that is not streamed."""
        part: Json = {"text": "done"}
        if call is not None:
            name = f"mcp_{server}_{call.tool}"
            part = {"functionCall": {"name": name, "args": call.arguments}}
        candidate = {
            "content": {"role": "model", "parts": [part]},
            "finishReason": "STOP",
            "index": 0,
        }
        counts = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": "scripted"}


def _event(kind: str, **data: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind} | data)}\n\n"


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def _stripped(names: Iterator[str], prefix: str) -> frozenset[str]:
    return frozenset(name.removeprefix(prefix) for name in names if name.startswith(prefix))
