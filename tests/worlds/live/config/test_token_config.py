"""Token keys can be configured in every form that Pulsar supports."""

import base64
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.live.config.token_config import token_settings

SECRET = bytes(range(32))
BASE64 = base64.b64encode(SECRET).decode()
RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")


def public(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey,
) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize(
    "text",
    [
        f"data:;base64,{BASE64}",
        f"data:application/octet-stream;base64,{BASE64}",
        BASE64,
        "file://{folder}/secret",
        "file:{folder}/secret",
        "{folder}/secret",
        "file://{folder}/a%20secret",
    ],
)
def test_a_secret_comes_in_every_form_of_pulsars(tmp_path: Path, text: str) -> None:
    for name in ("secret", "a secret"):
        (tmp_path / name).write_bytes(SECRET)
    settings = token_settings({"tokenSecretKey": text.format(folder=tmp_path)})
    assert (settings.key, settings.algorithms) == (SECRET, ("HS256",))


def test_a_data_url_may_have_the_key_as_it_is() -> None:
    text = "data:,an%20unencoded secret of some length"
    assert token_settings({"tokenSecretKey": text}).key == b"an unencoded secret of some length"


def test_a_longer_secret_verifies_what_is_signed_with_longer_hashes() -> None:
    for size, algorithms in ((48, ("HS256", "HS384")), (64, ("HS256", "HS384", "HS512"))):
        text = base64.b64encode(b"x" * size).decode()
        assert token_settings({"tokenSecretKey": text}).algorithms == algorithms


def test_a_public_key_verifies_the_algorithms_of_its_kind(tmp_path: Path) -> None:
    (tmp_path / "rsa").write_bytes(public(rsa.generate_private_key(65537, 2048)))
    assert token_settings({"tokenPublicKey": f"file://{tmp_path}/rsa"}).algorithms == RSA
    for curve, algorithm in ((ec.SECP256R1(), "ES256"), (ec.SECP521R1(), "ES512")):
        text = base64.b64encode(public(ec.generate_private_key(curve))).decode()
        found = token_settings({"tokenPublicKey": text, "tokenPublicAlg": algorithm.lower()})
        assert found.algorithms == (algorithm,)


def test_claims_and_clock_skew_are_those_of_the_file() -> None:
    found = token_settings(
        {
            "tokenSecretKey": BASE64,
            "tokenAuthClaim": "role",
            "tokenAudienceClaim": "aud",
            "tokenAudience": "this",
            "tokenAllowedClockSkewSeconds": "5",
        }
    )
    assert (found.auth_claim, found.audience_claim, found.audience) == ("role", "aud", "this")
    assert found.allowed_clock_skew_s == 5


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({}, "authenticationEnabled requires tokenSecretKey or tokenPublicKey"),
        ({"tokenSecretKey": "data:;base64,!"}, "neither an existing file nor base64"),
        ({"tokenSecretKey": "no such file"}, "neither an existing file nor base64"),
        ({"tokenSecretKey": "file:///no/such/file"}, "cannot be read: file:///no/such/file: No "),
        ({"tokenSecretKey": "/"}, "cannot be read: /: Is a directory"),
        ({"tokenSecretKey": "data:,short"}, "has 5 bytes; expected at least 32"),
        ({"tokenPublicKey": BASE64}, "not an X.509 public key in DER format"),
        (
            {"tokenPublicKey": base64_of(public(rsa.generate_private_key(65537, 1024)))},
            "supports no secure algorithm",
        ),
        (
            {"tokenPublicKey": base64_of(public(ed25519.Ed25519PrivateKey.generate()))},
            "supports no secure algorithm",
        ),
        (
            {"tokenPublicKey": base64_of(public(ec.generate_private_key(ec.SECP256R1())))},
            "tokenPublicAlg is RS256, but tokenPublicKey supports ES256",
        ),
        (
            {
                "tokenPublicKey": base64_of(public(rsa.generate_private_key(65537, 2048))),
                "tokenPublicAlg": "HS256",
            },
            "tokenPublicAlg is HS256, but tokenPublicKey supports RS256",
        ),
        ({"tokenSecretKey": BASE64, "tokenAudienceClaim": "aud"}, "but tokenAudience is not set"),
        ({"tokenSecretKey": BASE64, "tokenAllowedClockSkewSeconds": "a"}, "expected a number"),
    ],
)
def test_keys_that_verify_nothing_are_refused_by_name(keys: dict[str, str], reason: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match=reason):
        token_settings(keys)


def test_a_refusal_does_not_print_the_secret() -> None:
    with pytest.raises(BKIncorrectParameterException) as refused:
        token_settings({"tokenSecretKey": "my-secret!"})
    assert "my-secret" not in str(refused.value)


@pytest.mark.parametrize("text", ["schlüssel", "file:///%00", "file://[x", "/a\0b"])
def test_a_text_that_cannot_be_a_key_is_refused_without_printing_it(text: str) -> None:
    with pytest.raises(
        BKIncorrectParameterException, match="neither an existing file nor base64"
    ) as said:
        token_settings({"tokenSecretKey": text})
    assert text not in str(said.value)
