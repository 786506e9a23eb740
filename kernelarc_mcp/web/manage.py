"""`/manage`: an admin's token issues, lists and revokes tokens of a running server."""

from dataclasses import asdict
from typing import Literal

from pydantic import Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from kernelarc_guard.model import Model
from kernelarc_mcp.host.errors import HostError
from kernelarc_mcp.host.host import Host


class NewToken(Model):
    """What to issue; an agent that is not known yet is let in."""

    role: Literal["agent", "viewer", "admin"]
    name: str
    attempts: int = Field(default=0, ge=0, le=1_000_000)
    """Of a new agent, where attempts are split."""


class Management:
    """The endpoints; the front has seen to it that the caller is an admin."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def tokens(self, request: Request) -> Response:
        """GET lists all tokens, without what would let anybody use them; POST issues one."""
        if request.method == "GET":
            return JSONResponse([asdict(row) for row in self._host.token_rows()])
        try:
            new = NewToken.model_validate_json(await request.body())
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "body"
            return _refused(f"{where}: {first['msg']}")
        if new.attempts and new.role != "agent":
            return _refused("attempts: only an agent has any")
        try:
            if new.role == "agent":
                token = self._host.add_agent(new.name, new.attempts)
            else:
                token = self._host.issue_token(new.name, new.role)
        except HostError as error:
            return _refused(str(error))
        return JSONResponse({"name": new.name, "role": new.role, "token": token}, 201)

    async def token(self, request: Request) -> Response:
        """DELETE revokes one token by the id that the list shows."""
        try:
            self._host.revoke_token(request.path_params["id"])
        except HostError as error:
            return _refused(str(error), 404)
        return Response(status_code=204)


def _refused(said: str, status: int = 400) -> Response:
    return JSONResponse({"error": said}, status)
