"""Who is calling: the bearer token's agent over HTTP, the one named at launch over stdio."""

from mcp.server.auth.middleware.auth_context import get_access_token

from kernelarc_mcp.launch import NoIdentity


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
