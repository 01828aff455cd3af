"""Authentication of bearer tokens: static ones, and those of service accounts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hmac import compare_digest

from quorate.local.server.auth.authentication import AUTHENTICATED, User
from quorate.local.server.auth.service_account_tokens import API_AUDIENCES, InvalidToken, ServiceAccountTokens


class TokenAuthenticator:
    """The tokens that this server knows."""

    def __init__(self, static: Mapping[str, User], service_accounts: ServiceAccountTokens) -> None:
        """``static``: users by token; such a token is valid for this server only."""
        self._static = {
            token.encode(): replace(user, groups=tuple(dict.fromkeys((*user.groups, AUTHENTICATED))))
            for token, user in static.items()
        }
        self.service_accounts = service_accounts

    def authenticate(
        self, token: str, audiences: Sequence[str] = API_AUDIENCES
    ) -> tuple[User, tuple[str, ...]]:
        """Return the user of a token, and the ``audiences`` that it is valid for.

        Raises InvalidToken.
        """
        given = token.encode("utf-8", "surrogateescape")  # the bytes of the header, which may be any
        for static_token, user in self._static.items():
            if compare_digest(static_token, given):
                matched = tuple(audience for audience in audiences if audience in API_AUDIENCES)
                if not matched:
                    raise InvalidToken("invalid bearer token")
                return user, matched
        return self.service_accounts.authenticate(token, audiences)
