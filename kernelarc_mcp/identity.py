"""Who is calling: the bearer token's holder over HTTP, the agent named at launch over stdio."""

from mcp.server.auth.middleware.auth_context import get_access_token

from kernelarc_mcp.host.errors import NotAllowed
from kernelarc_mcp.host.onlookers import ONLOOKER
from kernelarc_mcp.launch import NoIdentity


def caller(launched_as: str = "") -> str:
    """Return the calling agent's name; NoIdentity without one, NotAllowed for who only reads.

    A token wins over the name given at launch, and sessions and client names are never believed.
    """
    token = get_access_token()
    if token is not None:
        if token.scopes != ["agent"]:
            role, _, name = token.client_id.partition(":")
            raise NotAllowed(
                f"this is the token of the {role} {name!r}, which only reads: it takes no part,"
                " submits nothing and has no brief"
            )
        return token.client_id
    if launched_as:
        return launched_as
    raise NoIdentity("this call carries no identity: send a bearer token of this campaign")


def reader(launched_as: str = "") -> str:
    """Return the calling agent's name, or ONLOOKER for a viewer or an admin; NoIdentity for nobody."""
    token = get_access_token()
    if token is not None and token.scopes in (["viewer"], ["admin"]):
        return ONLOOKER
    return caller(launched_as)
