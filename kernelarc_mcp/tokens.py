"""Bearer tokens: a token names one holder, an agent, a viewer or an admin, of one campaign."""

from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl

from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.tokens import Holder


def principal(holder: Holder) -> str:
    """Return a name that no two holders of different names or roles share."""
    # No agent's name has a colon.
    return holder.name if holder.role == "agent" else f"{holder.role}:{holder.name}"


def access_of(holder: Holder) -> AccessToken:
    """Return what the SDK and the tools know of a holder: name and role, without the token itself."""
    return AccessToken(token="", client_id=principal(holder), scopes=[holder.role])


class CampaignTokens:
    """Verifies tokens against the hashes stored in the campaign."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return who a token belongs to, without the token itself; None for a stranger."""
        holder = self._host.holder_of_token(token)
        return None if holder is None else access_of(holder)


def header_only() -> AuthSettings:
    """Return settings that demand a bearer header and serve no OAuth metadata.

    With metadata, clients start a login instead of sending the header they were configured with.
    """
    # The issuer is required by the type and, without a resource URL, published nowhere.
    return AuthSettings(issuer_url=AnyHttpUrl("http://127.0.0.1/"), resource_server_url=None)
