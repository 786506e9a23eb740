"""Who a stdio client launched this process as; light, so that a mistake is answered at once."""

import os

from kernelarc_mcp.host.errors import HostError, UnknownAgent

AGENT_VARIABLE = "KERNELARC_AGENT"


class NoIdentity(HostError):
    """The caller is nobody: no token and no agent named at launch."""


def agent_from_environment(known: list[str]) -> str:
    """Return the agent named at launch; NoIdentity if none is, UnknownAgent if it is not known."""
    agent = os.environ.get(AGENT_VARIABLE, "").strip()
    if not agent:
        raise NoIdentity(
            f"{AGENT_VARIABLE} is not set: over stdio the client must launch the server with "
            f"{AGENT_VARIABLE}=NAME, an agent of this campaign ({', '.join(known)})"
        )
    if agent not in known:
        raise UnknownAgent(
            f"{AGENT_VARIABLE}: there is no agent {agent!r} in this campaign; it expects"
            f" {', '.join(known)}"
        )
    return agent
