"""The boundary of every tool: arguments checked, faults turned into sentences a model can act on."""

import logging
from collections.abc import Callable
from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import BaseModel, ValidationError

from kernelarc_mcp import arguments as said
from kernelarc_mcp.host.errors import HostError
from kernelarc_mcp.host.lenses import Backend
from kernelarc_mcp.host.wording import worded
from kernelarc_mcp.schema import inline
from kernelarc_mcp.views import Answer

log = logging.getLogger(__name__)


class CampaignTool(Tool):
    """A tool that answers a bad call in our words, and says which arguments it ignored."""

    async def run(
        self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False
    ) -> Any:
        """Run the tool; raise ToolError where the call is at fault."""
        given = said.known_arguments(self.parameters, arguments)
        self._refuse(said.text_fault(given) or said.number_fault(self.parameters, given))
        try:
            answer = await super().run(given, context)
        except UnexpectedToolError as error:
            if isinstance(error.__cause__, HostError):
                raise ToolError(f"{self.name}: {error.__cause__}") from error.__cause__
            raise UnexpectedToolError(
                f"{self.name} failed inside the server; the fault is logged there. "
                "Your call was well-formed: you may send it once more with the same request_id."
            ) from error.__cause__
        except ToolError as error:
            # The arguments do not fit the schema: what a tool does wrong itself is unexpected.
            if isinstance(error.__cause__, ValidationError):
                self._refuse(said.explain(self.parameters, arguments, error.__cause__))
            raise

        answer = _noted(answer, said.ignored(self.parameters, arguments))
        return self._converted(answer) if convert_result else answer

    def _converted(self, answer: Any) -> CallToolResult | InputRequiredResult:
        """Return an answer as text and as structure, the same in both.

        The SDK's own text is indented: half as long again, which some clients cut.
        """
        finished = isinstance(answer, CallToolResult | InputRequiredResult)
        if finished or not isinstance(answer, BaseModel):
            return self.fn_metadata.convert_result(answer)
        return CallToolResult(
            content=[TextContent(text=answer.model_dump_json())],
            structured_content=answer.model_dump(mode="json"),
        )

    def _refuse(self, fault: str | None) -> None:
        if fault:
            raise ToolError(f"{self.name}: {fault} Nothing was stored.")


def _noted(answer: Any, note: str) -> Any:
    """Return an answer whose next step says first what was ignored of the call."""
    if not note or not isinstance(answer, Answer):
        return answer
    return answer.model_copy(update={"next_step": f"{note} {answer.next_step}"})


def make_tool(
    function: Callable[..., Any],
    title: str,
    *,
    read_only: bool = False,
    destructive: bool = False,
    idempotent: bool = False,
) -> Tool:
    """Return a tool whose published schemas are inlined; its docstring is what a model reads."""
    tool = CampaignTool.from_function(
        function,
        title=title,
        # Without the indentation that a docstring has in its source.
        description=" ".join((function.__doc__ or "").split()),
        annotations=ToolAnnotations(
            read_only_hint=read_only,
            destructive_hint=destructive,
            idempotent_hint=idempotent,
            open_world_hint=False,
        ),
        # Claude Code hides tools behind a search unless they say this.
        meta={"anthropic/alwaysLoad": True},
    )
    tool.parameters = inline(tool.parameters)
    if tool.fn_metadata.output_schema is not None:
        tool.fn_metadata.output_schema = inline(tool.fn_metadata.output_schema)
    return tool


def word(tool: Tool, backend: Backend) -> None:
    """Say what a tool and its arguments are for in the words of a backend."""
    tool.description = worded(tool.description, backend)
    for argument in tool.parameters.get("properties", {}).values():
        if "description" in argument:
            argument["description"] = worded(argument["description"], backend)
