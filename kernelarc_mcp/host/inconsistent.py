"""What a replay raises at a row that cannot follow the rows before it."""

from kernelarc_mcp.host.events import Event


class Inconsistent(Exception):
    """A row that cannot follow the rows before it."""

    def __init__(self, seq: int, message: str) -> None:
        super().__init__(f"event row {seq}: {message}")
        self.seq = seq


def expect(event: Event, holds: bool, message: str) -> None:
    """Raise Inconsistent where a condition of the event does not hold."""
    if not holds:
        raise Inconsistent(event.seq, f"{event.body.kind}: {message}")
