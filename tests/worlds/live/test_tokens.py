"""A broker admits clients with valid tokens and rejects all others."""

import json
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.protocol.authentication import Identity
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.worlds.live.tokens import TokenAuthentication, TokenSettings, make_token

SECRET = b"a secret that is long enough for it"
BY_SECRET = TokenSettings(SECRET, ("HS256",))
HOUR_S = 3600
# Generated with the debugger on jwt.io: {"alg":"HS256","typ":"JWT"},
# {"sub":"1234567890","name":"John Doe","iat":1516239022}, with the secret "your-256-bit-secret".
JWT_IO = (
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"
    ".eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ"
    ".SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
)


def identity_of(token: str, settings: TokenSettings = BY_SECRET, method: str = "token") -> Identity:
    return TokenAuthentication(settings)(method, token.encode())


def signed(claims: object, algorithm: str = "HS256", key: Any = SECRET) -> str:
    """Return a token with these claims, valid or not."""
    return jwt.PyJWS().encode(json.dumps(claims).encode(), key, algorithm)


def now_s() -> int:
    return int(time.time())


@pytest.mark.filterwarnings("ignore:The HMAC key is 19 bytes")
def test_token_of_another_maker_is_understood() -> None:
    settings = TokenSettings(b"your-256-bit-secret", ("HS256",))
    assert identity_of(JWT_IO, settings) == Identity("1234567890")


def test_token_lets_its_role_in_until_it_expires() -> None:
    assert identity_of(make_token(SECRET, "alice")) == Identity("alice")
    later = now_s() + HOUR_S
    assert identity_of(make_token(SECRET, "alice", later)) == Identity("alice", later * 1000)
    with pytest.raises(BrokerError, match="invalid token: Signature has expired"):
        identity_of(make_token(SECRET, "alice", now_s() - 1))


def test_clocks_may_differ_by_as_much_as_the_broker_allows() -> None:
    late, early = {"sub": "a", "exp": now_s() - 60}, {"sub": "a", "nbf": now_s() + 60}
    for claims in (late, early):
        with pytest.raises(BrokerError):
            identity_of(signed(claims))
        patient = replace(BY_SECRET, allowed_clock_skew_s=HOUR_S)
        assert identity_of(signed(claims), patient).role == "a"


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (signed({"sub": "alice", "nbf": 9_999_999_999}), "not yet valid"),
        (signed({"sub": "alice", "nbf": "soon"}), "nbf.* must be an integer"),
        (signed({"sub": "alice", "exp": "late"}), "exp.* must be an integer"),
        (signed({"sub": "alice", "exp": None}), "exp.* must be an integer"),
        (signed({"sub": "alice", "exp": [1]}), "exp.* must be an integer"),
        (signed({"sub": "alice", "exp": float("inf")}), "exp.* must be an integer"),
        (signed({"sub": None}), "does not contain a role: sub is None"),
        (signed({"sub": ""}), "does not contain a role: sub is ''"),
        (signed({"sub": 7}), "does not contain a role: sub is 7"),
        (signed({"sub": []}), "does not contain a role"),
        (signed({"sub": [None]}), "does not contain a role"),
        (signed({"sub": {"a": 1}}), "does not contain a role"),
        (signed({"name": "alice"}), "does not contain a role: sub is None"),
        (signed([{"sub": "alice"}]), "must be a json object"),
        (signed("alice"), "must be a json object"),
        (signed({"sub": "alice"}, key=b"another secret, of some length..."), "verification failed"),
        (signed({"sub": "alice"})[:-4] + "AAAA", "verification failed"),
        (signed({"sub": "alice"}, "none", None), "alg value is not allowed"),
        (signed({"sub": "alice"}, "HS512", SECRET * 2), "alg value is not allowed"),
        ("abc", "Not enough segments"),
        ("a.b.c", "invalid token"),
        ("\udcff.b.c", "invalid token"),
        ("W1tb" * 100_000 + ".b.c", "invalid token"),
        ("", "Not enough segments"),
    ],
)
def test_a_token_that_names_no_role_or_cannot_be_trusted_is_refused(
    token: str, reason: str
) -> None:
    with pytest.raises(BrokerError, match=reason) as refused:
        TokenAuthentication(BY_SECRET)("token", token.encode(errors="surrogateescape"))
    assert refused.value.code == ServerError.AuthenticationError


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@given(
    st.dictionaries(
        st.sampled_from(("sub", "exp", "nbf", "iat", "iss", "jti", "aud", "scope")), JSON
    )
)
def test_whatever_is_signed_names_a_role_or_is_refused(claims: dict[str, Any]) -> None:
    settings = replace(BY_SECRET, audience_claim="scope", audience="a")
    for each in (BY_SECRET, settings):
        with suppress(BrokerError):
            found = identity_of(signed(claims), each)
            assert found.role
            assert found.role in (claims["sub"], claims["sub"][0])


def test_role_is_in_the_claim_that_the_broker_names_and_the_first_of_several() -> None:
    settings = replace(BY_SECRET, auth_claim="role")
    assert identity_of(signed({"sub": "x", "role": "alice"}), settings).role == "alice"
    assert identity_of(signed({"role": ["bob", "alice"]}), settings).role == "bob"
    with pytest.raises(BrokerError, match="does not contain a role: role is None"):
        identity_of(signed({"sub": "x"}), settings)


def test_a_broker_with_an_audience_takes_tokens_for_it_alone() -> None:
    settings = replace(BY_SECRET, audience_claim="aud", audience="this")
    for found in ("this", ["other", "this"]):
        assert identity_of(signed({"sub": "a", "aud": found}), settings).role == "a"
    for other in ("other", ["other"], [], None, {"this": 1}, 7):
        with pytest.raises(BrokerError, match="is not meant for this"):
            identity_of(signed({"sub": "a", "aud": other}), settings)
        assert identity_of(signed({"sub": "a", "aud": found})).role == "a"


def test_a_public_key_lets_in_what_its_private_key_signed_and_no_forgery_by_its_bytes() -> None:
    private = rsa.generate_private_key(65537, 2048)
    settings = TokenSettings(private.public_key(), ("RS256", "PS512"))
    for algorithm in settings.algorithms:
        assert identity_of(signed({"sub": "a"}, algorithm, private), settings).role == "a"
    curve = ec.generate_private_key(ec.SECP256R1())
    elliptic = TokenSettings(curve.public_key(), ("ES256",))
    assert identity_of(signed({"sub": "a"}, "ES256", curve), elliptic).role == "a"
    with pytest.raises(BrokerError, match="alg value is not allowed"):
        identity_of(signed({"sub": "a"}), settings)
    with pytest.raises(BrokerError, match="verification failed"):
        identity_of(signed({"sub": "a"}, "RS256", rsa.generate_private_key(65537, 2048)), settings)


def test_client_without_a_token_is_refused() -> None:
    with pytest.raises(BrokerError, match="requires a token, got auth method 'none'"):
        identity_of("", method="")
