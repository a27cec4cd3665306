"""Tokens that prove a client's role: JSON Web Tokens, checked by PyJWT.

A token is valid if it is signed with the broker's key, is already valid (`nbf`), has not expired
(`exp`), names a role, and is meant for this broker if the broker has an audience.
`broker/protocol/authorization` decides what the role may do; with `authenticationEnabled` alone it
may do everything.  Pulsar's `bin/pulsar tokens create` makes tokens, and so does `make_token`.

In Pulsar: `broker/authentication/AuthenticationProviderToken.java`.
"""

from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.protocol.authentication import Identity
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.system.model.settings import setting

METHOD = "token"
_ELSEWHERE: Any = dict.fromkeys(
    ("verify_aud", "verify_iat", "verify_iss", "verify_sub", "verify_jti"), False
)
"""Claims that Pulsar ignores; roles and audiences, whose claims have any name, are checked here."""


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """How a broker checks tokens: names are those of Pulsar's `broker.conf`.

    `key` verifies the `algorithms`.  With an `audience_claim` that claim must contain the
    `audience`. Clocks may differ by `allowed_clock_skew_s`.
    """

    key: bytes | RSAPublicKey | EllipticCurvePublicKey
    algorithms: tuple[str, ...]
    auth_claim: str = setting("sub", "tokenAuthClaim")
    audience_claim: str = setting("", "tokenAudienceClaim")
    audience: str = setting("", "tokenAudience")
    allowed_clock_skew_s: int = setting(0, "tokenAllowedClockSkewSeconds")


class TokenAuthentication:
    """Lets in clients that show a valid token."""

    def __init__(self, settings: TokenSettings) -> None:
        self._settings = settings

    def __call__(self, method: str, data: bytes) -> Identity:
        """The role that the token proves.  Raises `BrokerError` with the reason if it is not
        valid.
        """
        if method != METHOD:
            raise _refused(f"this broker wants a token, not {method or 'a client without one'!r}")
        settings = self._settings
        try:
            claims = jwt.decode(
                data,
                settings.key,
                list(settings.algorithms),
                options=_ELSEWHERE,
                leeway=settings.allowed_clock_skew_s,
            )
        except (jwt.PyJWTError, RecursionError) as error:
            raise _refused(f"the token is refused: {error}") from None
        self._check_audience(claims)
        expires_at_s = claims.get("exp")
        return Identity(
            self._role(claims), None if expires_at_s is None else int(expires_at_s) * 1000
        )

    def _check_audience(self, claims: dict[str, Any]) -> None:
        name, audience = self._settings.audience_claim, self._settings.audience
        if not name:
            return
        found = claims.get(name)
        if audience not in (found if isinstance(found, list) else [found]):
            raise _refused(f"the token is not meant for {audience}: {name} is {found!r}")

    def _role(self, claims: dict[str, Any]) -> str:
        name = self._settings.auth_claim
        found = claims.get(name)
        role = found[0] if isinstance(found, list) and found else found
        if not isinstance(role, str) or not role:
            raise _refused(f"the token names no role: {name} is {found!r}")
        return role


def make_token(secret: bytes, role: str, expires_at_s: int | None = None) -> str:
    """A token for `role`, valid until `expires_at_s` (seconds since 1970), or for ever."""
    claims: dict[str, Any] = {"sub": role}
    if expires_at_s is not None:
        claims["exp"] = expires_at_s
    return jwt.encode(claims, secret, "HS256")


def _refused(text: str) -> BrokerError:
    return BrokerError(ServerError.AuthenticationError, text)
