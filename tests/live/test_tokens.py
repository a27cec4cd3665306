"""Tokens: who gets in, and what the others are told."""

import base64
import json

import pytest

from labkit.live.tokens import TokenAuthentication, make_token
from labkit.model.proto.pulsar_pb2 import ServerError
from labkit.pulsar.errors import BrokerError

SECRET = b"a secret of some length"
NOW_MS = 1_700_000_000_000
# Made by the `jwt.io` debugger: {"alg":"HS256","typ":"JWT"}, {"sub":"1234567890","name":"John Doe",
# "iat":1516239022}, with the secret "your-256-bit-secret".
JWT_IO = (
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"
    ".eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ"
    ".SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
)


def role_of(token: str, secret: bytes = SECRET, method: str = "token") -> str:
    return TokenAuthentication(secret, lambda: NOW_MS)(method, token.encode())


def unsigned(header: dict[str, str], claims: dict[str, str]) -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()) for part in (header, claims)]
    return ".".join(part.rstrip(b"=").decode() for part in parts) + "."


def test_token_of_another_maker_is_understood() -> None:
    assert role_of(JWT_IO, b"your-256-bit-secret") == "1234567890"


def test_token_lets_its_role_in_until_it_expires() -> None:
    assert role_of(make_token(SECRET, "alice")) == "alice"
    assert role_of(make_token(SECRET, "alice", NOW_MS // 1000 + 1)) == "alice"
    with pytest.raises(BrokerError, match="the token of alice has expired"):
        role_of(make_token(SECRET, "alice", NOW_MS // 1000))


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (make_token(b"another secret", "alice"), "not signed with this broker's secret"),
        (make_token(SECRET, "alice")[:-4] + "AAAA", "not signed with this broker's secret"),
        (unsigned({"alg": "none"}, {"sub": "alice"}), "signed with none; here HS256"),
        (unsigned({"alg": "HS256"}, {"sub": "alice"}), "not signed with this broker's secret"),
        (unsigned({"alg": "HS256"}, {"name": "alice"}), "no JSON Web Token with a subject"),
        ("abc", "no JSON Web Token"),
        ("a.b.c", "no JSON Web Token"),
        ("", "no JSON Web Token"),
    ],
)
def test_token_that_is_not_to_be_trusted_is_refused(token: str, reason: str) -> None:
    with pytest.raises(BrokerError, match=reason) as refused:
        role_of(token)
    assert refused.value.code == ServerError.AuthenticationError


def test_client_without_a_token_is_refused() -> None:
    with pytest.raises(BrokerError, match="wants a token, not 'a client without one'"):
        role_of("", method="")
