"""Bearer tokens: a token names one agent of one campaign."""

from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl

from kernelarc_mcp.host.host import Host


class CampaignTokens:
    """Verifies tokens against the hashes stored in the campaign."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return who a token belongs to, without the token itself; None for a stranger."""
        agent = self._host.agent_for_token(token)
        return None if agent is None else AccessToken(token="", client_id=agent, scopes=[])


def header_only() -> AuthSettings:
    """Return settings that demand a bearer header and serve no OAuth metadata.

    With metadata, clients start a login instead of sending the header they were configured with.
    """
    # The issuer is required by the type and, without a resource URL, published nowhere.
    return AuthSettings(issuer_url=AnyHttpUrl("http://127.0.0.1/"), resource_server_url=None)
