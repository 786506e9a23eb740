"""Who is calling: the bearer token's agent over HTTP, the launch environment's over stdio."""

import os

from mcp.server.auth.middleware.auth_context import get_access_token

from kernelarc_mcp.host.errors import HostError

AGENT_VARIABLE = "KERNELARC_AGENT"


class NoIdentity(HostError):
    """The caller is nobody: no token and no agent named at launch."""


def caller(launched_as: str = "") -> str:
    """Return the calling agent's name; raise NoIdentity without one.

    A token wins over the name given at launch, and sessions and client names are never believed.
    """
    token = get_access_token()
    if token is not None:
        return token.client_id
    if launched_as:
        return launched_as
    raise NoIdentity("this call carries no identity: send a bearer token of this campaign")


def agent_from_environment() -> str:
    """Return the agent that a stdio client launched this process as; raise NoIdentity if none."""
    agent = os.environ.get(AGENT_VARIABLE, "").strip()
    if not agent:
        raise NoIdentity(
            f"{AGENT_VARIABLE} is not set: over stdio the client must launch the server with "
            f"{AGENT_VARIABLE}=NAME, an agent of this campaign"
        )
    return agent
