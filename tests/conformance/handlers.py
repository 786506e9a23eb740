"""Methods the suite calls that the product does not have, and a schema it must not change."""

from typing import Any

from conformance.adding import add_tool
from mcp.server import MCPServer
from mcp.types import (
    CompleteRequestParams,
    CompleteResult,
    Completion,
    EmptyResult,
    SetLevelRequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def add(server: MCPServer[None]) -> None:
    """Add them."""

    async def do_nothing(_: Any, __: Any) -> EmptyResult:
        return EmptyResult()

    async def complete(_: Any, __: Any) -> CompleteResult:
        return CompleteResult(completion=Completion(values=[], total=0, has_more=False))

    # The SDK's MCPServer has no public way to add the first three.
    handle = server._lowlevel_server.add_request_handler
    handle("logging/setLevel", SetLevelRequestParams, do_nothing)
    handle("resources/subscribe", SubscribeRequestParams, do_nothing)
    handle("resources/unsubscribe", UnsubscribeRequestParams, do_nothing)
    handle("completion/complete", CompleteRequestParams, complete)

    async def keywords() -> str:
        """Show every keyword of JSON Schema in its input."""
        return "json_schema_2020_12_tool"

    add_tool(server, "json_schema_2020_12_tool", keywords).parameters = SCHEMA
