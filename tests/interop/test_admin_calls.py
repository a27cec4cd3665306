"""Pulsar's admin library for Java gets the same results from labkit's broker as from Pulsar's.

`pulsar_admin/java_broker.tsv` contains the results from Pulsar's broker 4.2.4 (standalone), and
`pulsar_admin/labkit_differs.tsv` contains the differing results from labkit, each with a reason.
"""

import asyncio
import csv
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from labkit.worlds.live.processes.cluster import LocalCluster
from tests.interop.apache import NotToBeHad
from tests.interop.pulsar_clients import HERE, admin_calls_command

pytestmark = [
    pytest.mark.interop,
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="session"),
]

FOLDER = HERE / "pulsar_admin"
TIMEOUT_S = 240


class Outcome(NamedTuple):
    """The result of a call.

    kind: `ok`, or the exception's class and the HTTP status.
    text: the returned value, or the reason for a difference.
    """

    kind: str
    text: str


def table(text: str) -> dict[str, Outcome]:
    rows = csv.reader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    return {name: Outcome(kind, text) for name, kind, text in rows}


def stored(name: str) -> dict[str, Outcome]:
    return table((FOLDER / name).read_text())


@pytest.fixture(scope="module")
def command() -> list[str]:
    try:
        return admin_calls_command()
    except NotToBeHad as reason:
        pytest.skip(f"Pulsar's admin library is not available: {reason}")


async def test_pulsars_admin_library_gets_the_outcomes_of_pulsars_broker(
    command: list[str], tmp_path: Path
) -> None:
    async with LocalCluster(3, brokers=1, traced=False) as cluster:
        urls = [cluster.web_url_of("broker-1"), cluster.service_url]
        arguments = [*command, *urls, "standalone", "p1"]
        with (tmp_path / "program.log").open("wb") as log:
            program = await asyncio.create_subprocess_exec(
                *arguments, stdout=subprocess.PIPE, stderr=log
            )
            async with asyncio.timeout(TIMEOUT_S):
                output, _ = await program.communicate()
    found, pulsars = table(output.decode()), stored("java_broker.tsv")
    assert list(found) == list(pulsars)
    differs = {
        name: outcome
        for name, outcome in found.items()
        if outcome.kind != pulsars[name].kind
        or (outcome.kind == "ok" and outcome.text != pulsars[name].text)
    }
    assert {name: outcome.kind for name, outcome in differs.items()} == {
        name: outcome.kind for name, outcome in stored("labkit_differs.tsv").items()
    }, differs
    refused = [outcome for outcome in differs.values() if outcome.kind.endswith(" 501")]
    assert all("not supported here" in outcome.text for outcome in refused), refused
