"""The token settings in Pulsar's `broker.conf`, including the keys for verifying signatures.

    tokenSecretKey, tokenPublicKey
      data:;base64,...   data:,...   the key, in base64 or as plain bytes
      file:///its/path               a file that contains the key
      /its/path                      the same
      anything else                  the key in base64

A secret key consists of at least 32 arbitrary bytes. A public key is an X.509 key in DER, for RSA
or an elliptic curve. Pulsar's `bin/pulsar tokens create-secret-key` and `create-key-pair` create
such keys.

In Pulsar: `broker/authentication/utils/AuthTokenUtils.java`.
"""

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.model.settings import setting
from labkit.worlds.live.config.properties import fields_in
from labkit.worlds.live.tokens import TokenSettings, VerificationKey

_MIN_SECRET_BYTES = {"HS256": 32, "HS384": 48, "HS512": 64}
"""The smallest size of a secret in bytes, by algorithm (RFC 7518, 3.2)."""

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_MIN_RSA_BITS = 2048
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_DATA = re.compile(r"data:[^;,]*(?:;charset=[^;,]+)?(;base64)?,(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TokenKeys:
    """The configured keys. A secret key takes precedence over a public key."""

    secret_key: str = setting("", "tokenSecretKey")
    public_key: str = setting("", "tokenPublicKey")
    public_alg: str = setting("RS256", "tokenPublicAlg")

    def verifier(self) -> tuple[VerificationKey, tuple[str, ...]]:
        """Return the key and the signature algorithms it may be used with.

        Raises `BKIncorrectParameterException`, whose message names the invalid key.
        """
        if self.secret_key:
            return _secret(_read_key("tokenSecretKey", self.secret_key))
        if self.public_key:
            return _public_key(
                _read_key("tokenPublicKey", self.public_key), self.public_alg.upper()
            )
        raise BKIncorrectParameterException(
            "authenticationEnabled requires tokenSecretKey or tokenPublicKey; use file:///its/path"
            " or data:;base64,..."
        )


def token_settings(properties: Mapping[str, str]) -> TokenSettings:
    """Read the token settings. Raises `BKIncorrectParameterException`."""
    key, algorithms = TokenKeys(**fields_in(properties, TokenKeys)).verifier()
    settings = TokenSettings(key, algorithms, **fields_in(properties, TokenSettings))
    if settings.audience_claim and not settings.audience:
        raise BKIncorrectParameterException(
            f"tokenAudienceClaim is {settings.audience_claim}, but tokenAudience is not set; set it"
            " to the audience that tokens must contain"
        )
    return settings


def _secret(key: bytes) -> tuple[bytes, tuple[str, ...]]:
    algorithms = tuple(name for name, size in _MIN_SECRET_BYTES.items() if len(key) >= size)
    if not algorithms:
        raise BKIncorrectParameterException(
            f"tokenSecretKey has {len(key)} bytes; expected at least {_MIN_SECRET_BYTES['HS256']},"
            " because a shorter key can be guessed"
        )
    return key, algorithms


def _public_key(data: bytes, wanted: str) -> tuple[VerificationKey, tuple[str, ...]]:
    try:
        key = load_der_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        raise BKIncorrectParameterException(
            "tokenPublicKey is not an X.509 public key in DER format; create one with Pulsar's"
            " `tokens create-key-pair`"
        ) from None
    algorithms: tuple[str, ...] = ()
    if isinstance(key, RSAPublicKey) and key.key_size >= _MIN_RSA_BITS:
        algorithms = _RSA
    elif isinstance(key, EllipticCurvePublicKey) and key.curve.name in _CURVES:
        algorithms = (_CURVES[key.curve.name],)
    if not isinstance(key, (RSAPublicKey, EllipticCurvePublicKey)) or wanted not in algorithms:
        raise BKIncorrectParameterException(
            f"tokenPublicAlg is {wanted}, but tokenPublicKey supports"
            f" {', '.join(algorithms) or 'no secure algorithm'}"
        )
    return key, algorithms


def _read_key(name: str, text: str) -> bytes:
    """Read a key given in any of the forms that Pulsar accepts."""
    try:
        if found := _DATA.fullmatch(text):
            data = unquote_to_bytes(found[2])
            return base64.b64decode(data, validate=True) if found[1] else data
        if text.startswith("file:"):
            return Path(unquote(urlsplit(text).path)).read_bytes()
        if os.path.exists(text):  # `Path.exists` would raise for a key that is not a valid path.
            return Path(text).read_bytes()
        return base64.b64decode(text, validate=True)
    except OSError as error:
        raise BKIncorrectParameterException(
            f"{name} cannot be read: {text}: {error.strerror}"
        ) from None
    except ValueError:  # Not valid base64 (binascii.Error), not a valid URL or not a valid path.
        # Do not show the text, because it may be the secret.
        raise BKIncorrectParameterException(
            f"{name} is neither an existing file nor base64; use file:///its/path or"
            " data:;base64,..."
        ) from None
