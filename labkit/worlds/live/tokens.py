"""Token authentication: clients prove their role with a JSON Web Token, which is verified by PyJWT.

A broker accepts a token if it is signed with the broker's key, is already valid (`nbf`), has not
expired (`exp`), and contains a role. If an audience is configured, the token must also be meant for
that audience. `broker/protocol/authorization` decides what the role may do. With only
`authenticationEnabled` set, every role may do everything. Create tokens with Pulsar's `bin/pulsar
tokens create` or with `make_token`.

In Pulsar: `broker/authentication/AuthenticationProviderToken.java`.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.protocol.authentication import Identity
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.system.model.settings import setting

VerificationKey: TypeAlias = bytes | RSAPublicKey | EllipticCurvePublicKey
_CHECKED_HERE: Any = dict.fromkeys(
    ("verify_aud", "verify_iat", "verify_iss", "verify_sub", "verify_jti"), False
)
"""Checks that PyJWT must skip. Pulsar either ignores these claims, or reads roles and audiences
from claims with configurable names, which this module checks.
"""


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """The settings that a broker uses to check tokens, named as in Pulsar's `broker.conf`.

    `key` verifies signatures that use one of the `algorithms`. If `audience_claim` is set, the
    claim of that name must contain `audience`. `allowed_clock_skew_s` is the tolerated difference
    between the clocks of issuer and broker.
    """

    key: VerificationKey
    algorithms: tuple[str, ...]
    auth_claim: str = setting("sub", "tokenAuthClaim")
    audience_claim: str = setting("", "tokenAudienceClaim")
    audience: str = setting("", "tokenAudience")
    allowed_clock_skew_s: int = setting(0, "tokenAllowedClockSkewSeconds")


class TokenAuthentication:
    def __init__(self, settings: TokenSettings) -> None:
        self._settings = settings

    def __call__(self, method: str, data: bytes) -> Identity:
        """Return the token's role and expiry time. Raises `BrokerError` if the token is invalid."""
        if method != "token":
            raise _invalid_token(
                f"this broker requires a token, got auth method {method or 'none'!r}"
            )
        settings = self._settings
        try:
            claims = jwt.decode(
                data,
                settings.key,
                list(settings.algorithms),
                options=_CHECKED_HERE,
                leeway=settings.allowed_clock_skew_s,
            )
        except (jwt.PyJWTError, RecursionError) as error:
            raise _invalid_token(f"invalid token: {error}") from None
        name, audience = settings.audience_claim, settings.audience
        found = claims.get(name)
        if name and audience not in (found if isinstance(found, list) else [found]):
            raise _invalid_token(f"the token is not meant for {audience}: {name} is {found!r}")
        name = settings.auth_claim
        found = claims.get(name)
        role = found[0] if isinstance(found, list) and found else found
        if not isinstance(role, str) or not role:
            raise _invalid_token(f"the token does not contain a role: {name} is {found!r}")
        expires_at_s = claims.get("exp")
        return Identity(role, None if expires_at_s is None else int(expires_at_s) * 1000)


def make_token(secret: bytes, role: str, expires_at_s: int | None = None) -> str:
    """Return a token for `role` that expires at `expires_at_s` (Unix time in seconds), or never."""
    claims: dict[str, Any] = {"sub": role}
    if expires_at_s is not None:
        claims["exp"] = expires_at_s
    return jwt.encode(claims, secret, "HS256")


def _invalid_token(text: str) -> BrokerError:
    return BrokerError(ServerError.AuthenticationError, text)
