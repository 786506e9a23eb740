"""A Ray node that comes up or does not; what stands for `ray start` is a shell."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from kernelarc_mcp.fleet import node
from kernelarc_mcp.fleet.hosting import Hosting, HostOptions
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
    raised = (
        "echo ValueError: a port 16379 is taken; echo 'Ports: {}'; echo Please use others.; exit 1"
    )
    with pytest.raises(NodeFailed, match="`ray start` failed: ValueError: a port 16379 is taken$"):
        Node(Shell(text=raised)).start()
    monkeypatch.setattr(node, "_START_SECONDS", 2.0)
    hanging = Node(Shell(text="echo joining; sleep 600 & wait"))
    # That this is told at all shows that both are gone: the pipe that is read ends with the last of them.
    with pytest.raises(NodeFailed, match="`ray start` failed: joining"):
        hanging.start()
    assert hanging.ended


class Enough(Exception):
    """A host has said what a test waits for."""


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (
            "",
            "others join this head with `kernelarc-mcp worker --address 192.0.2.7:7000`. Its ports",
        ),
        ("far:6379", "the head is at far:6379"),
    ],
)
def test_a_head_says_how_others_join_it_and_that_its_ports_are_open(
    tmp_path: Path, head: str, told: str
) -> None:
    text = "echo 'INFO -- Local node IP: 192.0.2.7'; echo Ray runtime started.; exec sleep 600"
    options = HostOptions(
        address=head or "127.0.0.1:7000",
        node=Shell(address=head, port=7000, text=text),
        name="h",
        cpu=False,
        gpus=0,
        guard_python="python",
        folder=tmp_path,
        namespace="n",
    )
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        raise Enough

    with pytest.raises(Enough):
        Hosting(options, say).run(lambda: True)
    (line,) = said
    assert line.startswith(f"a Ray node is up; {told}")
    assert ("keep them private (docs/fleet.md, Trust)" in line) == (not head)
