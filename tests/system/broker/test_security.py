"""Tests for authentication, TLS and authorization with Pulsar's own client."""

import asyncio
import json
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pulsar
import pytest

from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.live.tokens import make_token
from tests.system.broker.admin import JSON
from tests.system.broker.client import connect, receive_all
from tests.until import DEADLINE_S

SECRET = b"a secret that is long enough for it"


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, object]:
    """Return a broker's settings for token authentication and TLS with a self-signed
    certificate.
    """
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


@pytest.mark.promise(
    "Only clients with a valid token may connect, even over TLS; other clients only receive "
    "the reason"
)
@pytest.mark.java
async def test_only_clients_with_a_token_connect_also_over_tls(keys: dict[str, object]) -> None:
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
            wrong = pulsar.AuthenticationToken(
                make_token(b"another secret, of the same length", "mallory")
            )
            for options in ({}, {"authentication": wrong}):
                client = connect(cluster.service_url, **options)
                with pytest.raises(pulsar.AuthenticationError):
                    client.create_producer("topic")
                client.close()

        await asyncio.to_thread(come_in)
        await asyncio.to_thread(stay_outside)


@pytest.mark.java
async def test_client_whose_token_expires_shows_its_next_one(keys: dict[str, object]) -> None:
    conf = {**keys, "authenticationRefreshCheckSeconds": 1}
    made: list[float] = []

    def next_token() -> str:
        made.append(time.time())
        return make_token(SECRET, "alice", int(made[-1]) + 2)

    def come_in_twice() -> None:
        with closing(
            connect(cluster.service_url, authentication=pulsar.AuthenticationToken(next_token))
        ) as client:
            producer = client.create_producer("topic")
            deadline = time.monotonic() + DEADLINE_S
            while len(made) < 3:  # Connecting uses only two tokens.
                producer.send(b"while tokens come and go")
                assert time.monotonic() < deadline

    def stay_outside() -> None:
        last = pulsar.AuthenticationToken(make_token(SECRET, "alice", int(time.time()) - 1))
        with (
            closing(connect(cluster.service_url, authentication=last)) as client,
            pytest.raises(pulsar.AuthenticationError),
        ):
            client.create_producer("topic")

    async with LocalCluster(1, brokers=1, traced=False, broker_conf=conf) as cluster:
        await asyncio.to_thread(come_in_twice)
        await asyncio.to_thread(stay_outside)


def ask_as(role: str, url: str, method: str = "GET", body: object = None) -> tuple[int, Any]:
    """Send an HTTP request as this role and return the status and the response."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {make_token(SECRET, role)}"}
    try:
        with urlopen(Request(url, data, JSON | headers, method=method), timeout=20) as response:
            text = response.read()
            return response.status, json.loads(text) if text else None
    except HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


@pytest.mark.promise("With authorization, a role may only do what it was granted")
@pytest.mark.java
async def test_role_does_what_it_is_granted_a_superuser_anything(keys: dict[str, object]) -> None:
    conf = {**keys, "authorizationEnabled": "true", "superUserRoles": "root,other"}

    def come_in_as(role: str) -> pulsar.Client:
        token = pulsar.AuthenticationToken(make_token(SECRET, role))
        return connect(cluster.service_url, authentication=token)

    def tell_apart() -> None:
        web = cluster.web_url_of("broker-1")
        permissions = f"{web}/admin/v2/namespaces/public/default/permissions"
        lookup = f"{web}/lookup/v2/topic/persistent/public/default/topic"
        alice, bob, root = (come_in_as(role) for role in ("alice", "bob", "root"))
        with pytest.raises(pulsar.AuthorizationError):
            alice.create_producer("topic")
        assert ask_as("alice", f"{permissions}/alice", "POST", ["produce"])[0] == 403
        assert ask_as("alice", lookup)[0] == 403
        assert ask_as("root", f"{permissions}/alice", "POST", ["produce"]) == (204, None)
        assert ask_as("root", f"{permissions}/bob", "POST", ["consume"]) == (204, None)
        assert ask_as("root", permissions) == (200, {"alice": ["produce"], "bob": ["consume"]})
        assert ask_as("root", f"{permissions}/eve", "POST", ["everything"])[0] == 400
        message_id = alice.create_producer("topic").send(b"hello")
        assert ask_as("alice", lookup)[0] == 200
        with pytest.raises(pulsar.AuthorizationError):
            alice.subscribe("topic", "sub")
        with pytest.raises(pulsar.AuthorizationError):
            bob.create_producer("topic")
        assert receive_all(bob, "topic", 1) == [(message_id, b"hello")]
        assert ask_as("root", f"{permissions}/bob", "DELETE") == (204, None)
        with pytest.raises(pulsar.AuthorizationError):
            bob.subscribe("topic", "sub")
        assert receive_all(root, "topic", 1) == [(message_id, b"hello")]
        assert ask_as("alice", f"{web}/admin/v2/brokers")[0] == 403
        assert ask_as("other", f"{web}/admin/v2/brokers")[0] == 200
        for client in (alice, bob, root):
            client.close()

    async with LocalCluster(1, brokers=1, traced=False, broker_conf=conf) as cluster:
        await asyncio.to_thread(tell_apart)
