"""How far back a campaign's agents look. Nothing is ever deleted: this decides what is shown."""

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, kw_only=True)
class Retention:
    """Limits on what is shown; each one that is None does not apply."""

    count: int | None = 16
    """At most this many conclusions."""
    submissions: int | None = None
    """Only conclusions last proven within this many submissions of the reader's campaign.

    Conclusions of other campaigns have no place in that order; only `hours` ages them.
    """
    hours: float | None = None
    """Only conclusions last proven within this time."""

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 1:
            raise ValueError(f"count must be at least 1, not {self.count}")
        if self.submissions is not None and self.submissions < 1:
            raise ValueError(f"submissions must be at least 1, not {self.submissions}")
        if self.hours is not None and not self.hours > 0:
            raise ValueError(f"hours must be more than 0, not {self.hours}")

    @classmethod
    def bounded(cls, n: int = 16) -> Self:
        """Show the `n` most useful conclusions, however old."""
        return cls(count=n)

    @classmethod
    def unbounded(cls) -> Self:
        """Show everything."""
        return cls(count=None)

    @classmethod
    def horizon(
        cls, *, submissions: int | None = None, hours: float | None = None, count: int | None = None
    ) -> Self:
        """Show what was proven lately; at least one of the two spans is needed."""
        if submissions is None and hours is None:
            raise ValueError("a horizon needs submissions, hours or both")
        return cls(count=count, submissions=submissions, hours=hours)

    def __str__(self) -> str:
        parts = [
            f"at most {self.count}" if self.count is not None else "",
            f"of the last {self.submissions} submissions" if self.submissions is not None else "",
            f"of the last {self.hours:g} hours" if self.hours is not None else "",
        ]
        return ", ".join(part for part in parts if part) or "unbounded"
