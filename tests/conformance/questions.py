"""Tools that ask the client in the middle of a call, as the protocol up to 2025-11-25 allows."""

from typing import Any

from conformance.adding import add_tool
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import SamplingMessage, TextContent

Schema = dict[str, Any]


def _object(properties: Schema, required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required}


def _titled(*values: str) -> list[Schema]:
    return [{"const": value, "title": value.capitalize()} for value in values]


RESPONSE = _object({"response": {"type": "string", "description": "User's response"}}, ["response"])
DEFAULTS = _object(
    {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    },
    [],
)
ENUMS = _object(
    {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": _titled("value1", "value2", "value3")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array",
            "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
        },
        "titledMulti": {
            "type": "array",
            "items": {"anyOf": _titled("value1", "value2", "value3")},
        },
    },
    [],
)


async def _elicited(context: Context[Any, Any], message: str, schema: Schema) -> str:
    answer = await context.session.elicit_form(message, schema, context.request_id)
    return f"User response: action={answer.action}, content={answer.content}"


async def sampling(context: Context[Any, Any], prompt: str) -> str:
    """Ask the client's model."""
    asked = SamplingMessage(role="user", content=TextContent(text=prompt))
    # On the stream of this call: another one need not be open.
    answer = await context.session.create_message(
        [asked], max_tokens=100, related_request_id=context.request_id
    )
    said = answer.content
    return f"LLM response: {said.text if isinstance(said, TextContent) else said}"


async def elicitation(context: Context[Any, Any], message: str) -> str:
    """Ask the user one thing."""
    return await _elicited(context, message, RESPONSE)


async def defaults(context: Context[Any, Any]) -> str:
    """Ask the user with a default for every simple type."""
    return await _elicited(context, "Please check these values", DEFAULTS)


async def enums(context: Context[Any, Any]) -> str:
    """Ask the user with every form of a choice."""
    return await _elicited(context, "Please choose", ENUMS)


def add(server: MCPServer[None]) -> None:
    """Add them."""
    add_tool(server, "test_sampling", sampling)
    add_tool(server, "test_elicitation", elicitation)
    add_tool(server, "test_elicitation_sep1034_defaults", defaults)
    add_tool(server, "test_elicitation_sep1330_enums", enums)
