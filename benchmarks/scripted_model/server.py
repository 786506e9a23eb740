"""A model API on loopback that follows scripts, so that real clients call real tools with no model.

Each agent has a URL of its own, `http://127.0.0.1:PORT/AGENT`, and so a script of its own.
"""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from benchmarks.scripted_model.dialects import Anthropic, Dialect, Google, Json, OpenAI
from benchmarks.scripted_model.story import Answer, Call, Story, next_call


@dataclass
class Part:
    """One agent's script and what came of it."""

    story: Story
    server: str = "kernelarc"
    calls: list[Call] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    tools: frozenset[str] = frozenset()
    heard: str = ""
    """The last conversation as a text."""
    turns: int = 0
    ended: bool = False


class ScriptedModel:
    """Answers the clients' requests from each agent's part."""

    def __init__(self, parts: dict[str, Part], log: Path | None = None) -> None:
        self._parts = parts
        self._log = log
        posts = [
            Route("/{agent}/v1/messages", self._stream(Anthropic()), methods=["POST"]),
            Route("/{agent}/v1/responses", self._stream(OpenAI()), methods=["POST"]),
            Route("/{agent}/v1beta/models/{rest:path}", self._gemini, methods=["POST"]),
        ]
        methods = ["GET", "POST", "HEAD", "PUT", "DELETE"]
        self.app = Starlette(routes=[*posts, Route("/{rest:path}", self._other, methods=methods)])

    def _turn(self, agent: str, body: Json, dialect: Dialect) -> tuple[Part, Call | None]:
        part = self._parts[agent]
        heard = dialect.hear(body, part.server)
        part.turns += 1
        self._write(agent=agent, turn=part.turns, body=body)
        if not heard.tools:
            # A side question (a title, a summary), or a client whose server is not connected yet.
            return part, None
        part.tools, part.heard, part.answers = heard.tools, heard.text, heard.answers
        call = next_call(part.story, heard.answers)
        part.ended = call is None
        if call is not None:
            part.calls.append(call)
        return part, call

    def _stream(self, dialect: Dialect):  # type: ignore[no-untyped-def]
        async def answer(request: Request) -> Response:
            body = await request.json()
            part, call = self._turn(request.path_params["agent"], body, dialect)
            events = dialect.say(body, part.server, call, part.turns)
            return StreamingResponse(iter(list(events)), media_type="text/event-stream")

        return answer

    async def _gemini(self, request: Request) -> Response:
        path = request.path_params["rest"]
        if path.endswith(":countTokens"):
            return JSONResponse({"totalTokens": 10})
        body = await request.json()
        dialect = Google()
        part, call = self._turn(request.path_params["agent"], body, dialect)
        if ":streamGenerateContent" in path:
            events = dialect.say(body, part.server, call, part.turns)
            return StreamingResponse(iter(list(events)), media_type="text/event-stream")
        return JSONResponse(dialect.reply(part.server, call))

    async def _other(self, request: Request) -> Response:
        self._write(method=request.method, path=request.url.path)
        if request.url.path.endswith("/count_tokens"):
            return JSONResponse({"input_tokens": 10})
        if request.url.path.endswith("/models"):
            return JSONResponse({"data": [], "models": []})
        return JSONResponse({}, status_code=404)

    def _write(self, **row: object) -> None:
        if self._log is not None:
            with self._log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


@contextmanager
def serving(model: ScriptedModel) -> Iterator[str]:
    """Serve on a free port of loopback in a thread; yield the URL without an agent."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        port = listening.getsockname()[1]
        config = uvicorn.Config(
            model.app, log_level="warning", log_config=None, timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join()
