"""Who may come in, and how: tokens and TLS, with Pulsar's own client."""

import asyncio
import subprocess
from pathlib import Path

import pulsar
import pytest

from labkit.live.cluster import LocalCluster
from labkit.live.tokens import make_token
from tests.pulsar.client import connect, receive_all

SECRET = b"a secret of some length"


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, object]:
    """Pulsar's keys for a broker with a secret for tokens, and a certificate of its own making."""
    (tmp_path / "secret").write_bytes(SECRET)
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    return {
        "authenticationEnabled": "true",
        "tokenSecretKey": f"file://{tmp_path}/secret",
        "tlsCertificateFilePath": certificate,
        "tlsKeyFilePath": key,
    }


async def test_only_clients_with_a_token_come_in_and_tls_is_open_to_them(
    keys: dict[str, object],
) -> None:
    async with LocalCluster(1, brokers=1, traced=False, broker_conf=keys) as cluster:
        port = cluster.ports_of("broker-1")["tls_port"]
        certificate = str(keys["tlsCertificateFilePath"])

        def come_in() -> None:
            token = pulsar.AuthenticationToken(make_token(SECRET, "alice"))
            plain = connect(cluster.service_url, authentication=token)
            message_id = plain.create_producer("topic").send(b"hello")
            tls = connect(
                f"pulsar+ssl://127.0.0.1:{port}",
                authentication=token,
                tls_trust_certs_file_path=certificate,
                tls_validate_hostname=True,
            )
            assert receive_all(tls, "topic", 1) == [(message_id, b"hello")]
            tls.close()
            plain.close()

        def stay_outside() -> None:
            wrong = pulsar.AuthenticationToken(make_token(b"another secret", "mallory"))
            for options in ({}, {"authentication": wrong}):
                client = connect(cluster.service_url, **options)
                with pytest.raises(pulsar.AuthenticationError):
                    client.create_producer("topic")
                client.close()

        await asyncio.to_thread(come_in)
        await asyncio.to_thread(stay_outside)
