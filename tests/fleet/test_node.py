"""A Ray node that does not come up; what stands for `ray start` is a shell."""

from dataclasses import dataclass

import pytest

from kernelarc_mcp.fleet import node
from kernelarc_mcp.fleet.node import Node, NodeFailed, NodeOptions


@dataclass(frozen=True)
class Shell(NodeOptions):
    """Runs a text of a shell instead."""

    text: str = ""

    def command(self) -> list[str]:
        """Return the shell's command."""
        return ["/bin/sh", "-c", self.text]


def test_a_node_that_fails_or_hangs_is_told_with_its_last_line_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(NodeFailed, match="`ray start` failed: no such head"):
        Node(Shell(text="echo no such head; exit 1")).start()
    monkeypatch.setattr(node, "_START_SECONDS", 2.0)
    hanging = Node(Shell(text="echo joining; sleep 600 & wait"))
    # That this is told at all shows that both are gone: the pipe that is read ends with the last of them.
    with pytest.raises(NodeFailed, match="`ray start` failed: joining"):
        hanging.start()
    assert hanging.ended
