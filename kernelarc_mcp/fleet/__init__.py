"""Judging on many GPUs and hosts through Ray. Nothing of the server imports this package.

The server talks to `standin`, a process that speaks the guard's protocol; hosts join with
`kernelarc-mcp worker`. docs/fleet.md says how they work together.
"""

from kernelarc_mcp.fleet.authentication import settle_mode

settle_mode()
