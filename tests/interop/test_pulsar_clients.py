"""Pulsar's clients for Java and Go find that labkit's broker does what docs/pulsar.md promises."""

import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from labkit.system.broker.config import BrokerConfig
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.live.tokens import TokenAuthentication, TokenSettings, make_token
from tests.interop.apache import NotToBeHad
from tests.interop.pulsar_clients import PROGRAMS, Place, RunningProgram
from tests.system.broker.serving import serving

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

SECRET = b"a secret that is long enough for HS256"
ELSEWHERE = {"strangers_are_refused", "friends_are_let_in"}
"""These scenarios need a broker with other settings."""
# The other clients repeat the scenarios of the newest Java client, so they run only in long tests.
REPEATS = {name: () if name == "java" else pytest.mark.long for name in PROGRAMS}
CLIENTS = [pytest.param(name, marks=REPEATS[name]) for name in PROGRAMS]
CASES = [
    pytest.param(name, scenario, marks=REPEATS[name])
    for name, program in PROGRAMS.items()
    for scenario in program.scenarios
    if scenario not in ELSEWHERE
]

Programs = Callable[[str], Awaitable[RunningProgram]]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Return the broker configuration for a self-signed certificate."""
    folder = tmp_path_factory.mktemp("tls")
    files = {"certificate": folder / "certificate.pem", "key": folder / "key.pem"}
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    outputs = ["-keyout", str(files["key"]), "-out", str(files["certificate"])]
    subprocess.run([*command, *names, *outputs], check=True, capture_output=True)
    return {"tlsCertificateFilePath": files["certificate"], "tlsKeyFilePath": files["key"]}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def brokers(certificate: dict[str, object]) -> AsyncIterator[LocalCluster]:
    """Start three bookies and two brokers, which also serve TLS."""
    async with LocalCluster(3, brokers=2, traced=False, broker_conf=certificate) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def programs(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Programs]:
    """Return a function that starts a program on demand, or skips the test if it cannot."""
    folder = tmp_path_factory.mktemp("programs")
    started: dict[str, RunningProgram | NotToBeHad] = {}

    async def get(name: str) -> RunningProgram:
        if name not in started:
            try:
                command = PROGRAMS[name].command()
                started[name] = await RunningProgram.start(command, folder / f"{name}.log")
            except NotToBeHad as reason:
                started[name] = reason
        program = started[name]
        if isinstance(program, NotToBeHad):
            pytest.skip(f"Pulsar's client ({name}) is not available: {program}")
        return program

    yield get
    for program in started.values():
        if isinstance(program, RunningProgram):
            await program.kill()


@pytest.fixture
def place(brokers: LocalCluster) -> Place:
    return Place(brokers.service_url, brokers.web_url_of("broker-1"))


@pytest.mark.promise(
    "Pulsar's own Java and Go clients work: every kind of producer, consumer, schema and codec"
)
@pytest.mark.parametrize(("client", "scenario"), CASES)
async def test_pulsars_own_client_finds_what_is_promised(
    programs: Programs, place: Place, client: str, scenario: str
) -> None:
    assert await (await programs(client)).run(scenario, place) == "ok"


@pytest.mark.parametrize("client", CLIENTS)
async def test_pulsars_own_client_comes_in_by_tls(
    programs: Programs,
    brokers: LocalCluster,
    certificate: dict[str, object],
    place: Place,
    client: str,
) -> None:
    url = f"pulsar+ssl://127.0.0.1:{brokers.ports_of('broker-1')['tls_port']}"
    program = await programs(client)
    path = str(certificate["tlsCertificateFilePath"])
    assert await program.run("friends_are_let_in", Place(url, place.web_url, "-", path)) == "ok"


@pytest.mark.parametrize("client", CLIENTS)
async def test_pulsars_own_client_comes_in_with_a_token_alone(
    programs: Programs, brokers: LocalCluster, place: Place, client: str
) -> None:
    program = await programs(client)
    tokens = TokenAuthentication(TokenSettings(SECRET, ("HS256",)))
    async with serving(brokers, BrokerConfig(), tokens) as broker:
        url = broker.address.service_url
        assert await program.run("strangers_are_refused", Place(url, place.web_url)) == "ok"
        forged = Place(url, place.web_url, make_token(SECRET[::-1], "mallory"))
        assert await program.run("strangers_are_refused", forged) == "ok"
        friend = Place(url, place.web_url, make_token(SECRET, "alice"))
        assert await program.run("friends_are_let_in", friend) == "ok"
