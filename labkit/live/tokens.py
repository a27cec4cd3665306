"""Tokens that say who a client is: JSON Web Tokens, signed with a secret (HS256).

What the role in a token may do is another question (`pulsar/authorization`); with
`authenticationEnabled` alone it is everything.  Pulsar's `bin/pulsar tokens create` makes them, and
`make_token`.

In Pulsar: `broker/authentication/AuthenticationProviderToken.java`.
"""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable

from labkit.model.proto.pulsar_pb2 import ServerError
from labkit.pulsar.errors import BrokerError

METHOD = "token"


def make_token(secret: bytes, role: str, expires_at_s: int | None = None) -> str:
    """A token for `role`, which is valid until then (seconds since 1970), or for ever."""
    claims: dict[str, str | int] = {"sub": role}
    if expires_at_s is not None:
        claims["exp"] = expires_at_s
    parts = [_encode(json.dumps(part).encode()) for part in ({"alg": "HS256"}, claims)]
    return ".".join((*parts, _encode(_sign(secret, *parts))))


class TokenAuthentication:
    """Lets clients in that show a token signed with the secret."""

    def __init__(self, secret: bytes, wall_clock_ms: Callable[[], int]) -> None:
        self._secret = secret
        self._wall_clock_ms = wall_clock_ms

    def __call__(self, method: str, data: bytes) -> str:
        """The role in the token.  Raises `BrokerError` saying what is wrong with it."""
        if method != METHOD:
            raise _refused(f"this broker wants a token, not {method or 'a client without one'!r}")
        try:
            header, claims, signature = data.decode().split(".")
            signed = _decode(signature)
            algorithm = json.loads(_decode(header))["alg"]
            content = json.loads(_decode(claims))
            role, expires_at_s = content["sub"], content.get("exp")
        except (ValueError, KeyError, TypeError, binascii.Error):
            raise _refused("what was sent is no JSON Web Token with a subject (sub)") from None
        if algorithm != "HS256":
            raise _refused(f"the token is signed with {algorithm}; here HS256 is checked")
        if not hmac.compare_digest(signed, _sign(self._secret, header, claims)):
            raise _refused("the token is not signed with this broker's secret")
        if expires_at_s is not None and expires_at_s * 1000 <= self._wall_clock_ms():
            raise _refused(f"the token of {role} has expired")
        return str(role)


def _refused(text: str) -> BrokerError:
    return BrokerError(ServerError.AuthenticationError, text)


def _sign(secret: bytes, *parts: str) -> bytes:
    return hmac.new(secret, ".".join(parts).encode(), hashlib.sha256).digest()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
