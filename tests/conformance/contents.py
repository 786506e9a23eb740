"""Tools, resources and prompts that return fixed contents; the suite compares them."""

import json
from typing import Any

from conformance.adding import add_tool
from conformance.media import base64_of, png, wav
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)

_PICTURE = ImageContent(data=base64_of(png()), mime_type="image/png")


def _text(text: str) -> TextContent:
    return TextContent(text=text)


def _embedded(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))


TOOLS: dict[str, list[ContentBlock]] = {
    "test_simple_text": [_text("This is a simple text response for testing.")],
    "test_image_content": [_PICTURE],
    "test_audio_content": [AudioContent(data=base64_of(wav()), mime_type="audio/wav")],
    "test_embedded_resource": [
        _embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        _text("Multiple content types test:"),
        _PICTURE,
        _embedded(
            "test://mixed-content-resource", "application/json", '{"test":"data","value":123}'
        ),
    ],
}
"""Name of a tool -> all it returns."""


def add(server: MCPServer[None]) -> None:
    """Add them."""
    for name, blocks in TOOLS.items():
        _returning(server, name, blocks)

    async def fail() -> str:
        """Fail as a tool fails on purpose."""
        raise ToolError("This tool intentionally returns an error for testing")

    add_tool(server, "test_error_handling", fail)
    _add_resources(server)
    _add_prompts(server)


def _returning(server: MCPServer[None], name: str, blocks: list[ContentBlock]) -> None:
    async def answer() -> CallToolResult:
        """Return fixed contents."""
        return CallToolResult(content=blocks)

    add_tool(server, name, answer)


def _add_resources(server: MCPServer[Any]) -> None:
    @server.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        """A text."""
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        """A picture."""
        return png()

    @server.resource("test://watched-resource", mime_type="text/plain")
    def watched() -> str:
        """What the suite subscribes to."""
        return "Watched resource content"

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def filled(id: str) -> str:
        """A template with one variable."""
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def _add_prompts(server: MCPServer[Any]) -> None:
    @server.prompt(name="test_simple_prompt")
    def simple() -> str:
        """A prompt without arguments."""
        return "This is a simple prompt for testing."

    @server.prompt(name="test_prompt_with_arguments")
    def with_arguments(arg1: str, arg2: str) -> str:
        """A prompt that shows its arguments."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt(name="test_prompt_with_embedded_resource")
    def with_resource(resourceUri: str) -> list[UserMessage]:
        """A prompt that carries a resource."""
        carried = _embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
        asked = _text("Please process the embedded resource above.")
        return [UserMessage(content=carried), UserMessage(content=asked)]

    @server.prompt(name="test_prompt_with_image")
    def with_image() -> list[UserMessage]:
        """A prompt that carries a picture."""
        asked = _text("Please analyze the image above.")
        return [UserMessage(content=_PICTURE), UserMessage(content=asked)]
