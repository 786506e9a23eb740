"""What the front answers itself: short, without a word about what lies behind it."""

import json
import math
from collections.abc import Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

TOO_MUCH: Final = -32010
"""JSON-RPC code, of those an implementation may define, for what may be sent again later."""
_REFUSED: Final = -32011
AGAIN_SECONDS: Final = 15
"""After which a client may ask again for what could not be served."""
_TOKEN_HELP: Final = (
    "Send the header Authorization: Bearer TOKEN with a token that opens this path; each belongs to"
    " one campaign (kernelarc-mcp new, agent add and token add print them once)."
)


def not_for(what: str, status: int) -> Response:
    """Refuse a Host (421) or an Origin (403)."""
    return PlainTextResponse(f"Invalid {what} header", status)


def no_valid_token() -> Response:
    """Ask for a token; without OAuth metadata, which would make clients start a login."""
    return JSONResponse(
        {"error": "invalid_token", "error_description": _TOKEN_HELP},
        401,
        {"WWW-Authenticate": f'Bearer error="invalid_token", error_description="{_TOKEN_HELP}"'},
    )


def wrong_role(needed: str) -> Response:
    """Refuse what the token's role does not allow."""
    said = f"This needs a token of the role {needed}."
    return JSONResponse(
        {"error": "insufficient_scope", "error_description": said},
        403,
        {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{needed}"'},
    )


def no_such_path(known: Sequence[str]) -> Response:
    """Say which paths there are; the one that was asked for is not repeated."""
    said = f"There is nothing at this path. There are {', '.join(known)}."
    return JSONResponse({"error": "not_found", "error_description": said}, 404)


async def not_the_endpoint(_: Request, refused: Exception) -> Response:
    """Say where the protocol is to who sends to another path what it does not take."""
    said = (
        "Nothing at this path takes such a request. The MCP endpoint is /mcp, or /c/NAME/mcp where"
    )
    allowed = dict(getattr(refused, "headers", None) or {})
    return _json_rpc_error(405, _REFUSED, f"{said} a server has several campaigns.", {}, allowed)


def too_much(what: str, seconds: float) -> Response:
    """Refuse for now; clients pass the sentence on to who called."""
    wait = max(1, math.ceil(seconds))
    return _json_rpc_error(
        429,
        TOO_MUCH,
        f"{what}; nothing was done. Send it again in {wait} s.",
        {"retry_after_seconds": wait},
        {"Retry-After": str(wait)},
    )


def large_body(limit: int) -> Response:
    """Refuse a body above the limit."""
    # The connection stays: closed while the client still sends, it would not see the answer.
    said = f"The request's body has more than {limit} bytes; nothing was done."
    return _json_rpc_error(413, _REFUSED, said, {"limit_bytes": limit}, {})


def slow_body(seconds: float) -> Response:
    """Refuse a body that was not there in time."""
    said = f"The request's body was not complete after {seconds:g} s; nothing was done."
    return _json_rpc_error(408, _REFUSED, said, {}, {})


def stopping() -> Response:
    """Say that the server ends; nothing that was charged is lost by it."""
    said = "The server is stopping. Send it again once it runs; tickets stay valid."
    return _json_rpc_error(503, TOO_MUCH, said, {}, {})


def unavailable(why: str) -> Response:
    """Refuse while a campaign cannot be served; clients may try again."""
    said = f"{why} Nothing was done. Send it again in {AGAIN_SECONDS} s."
    again = {"Retry-After": str(AGAIN_SECONDS)}
    return _json_rpc_error(503, TOO_MUCH, said, {"retry_after_seconds": AGAIN_SECONDS}, again)


def _json_rpc_error(
    status: int, code: int, message: str, data: dict[str, Any], headers: dict[str, str]
) -> Response:
    # The id is null, as the body, which has it, is not looked at.
    error = {"code": code, "message": message} | ({"data": data} if data else {})
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    return Response(json.dumps(body), status, headers, "application/json")
