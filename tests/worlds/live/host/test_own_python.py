"""labkit's child processes never import modules from the working directory by accident."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labkit import __version__
from labkit.worlds.live.host.own_python import own_command, own_path
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper

ROOT = str(Path(__file__).parents[4])
DEADLINE_S = 60


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Change to a directory with another user's modules, and fail if any of them is imported."""
    sprung = tmp_path / "sprung"
    for name in ("kazoo", "queue", "labkit", "jupyterlab", "site", "asyncio"):
        (tmp_path / f"{name}.py").write_text(f"open({str(sprung)!r}, 'w'); raise SystemExit(7)")
    monkeypatch.chdir(tmp_path)
    yield
    assert not sprung.exists()


def version(variables: dict[str, str]) -> str:
    """Return the version that labkit reports when run with these environment variables."""
    done = subprocess.run(
        own_command("labkit", "--version"),
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    return done.stdout


@pytest.mark.usefixtures("trap")
@pytest.mark.java
@pytest.mark.asyncio(loop_scope="session")
async def test_the_nodes_of_a_cluster_run_no_module_of_the_working_folder(
    zookeeper: EmbeddedZooKeeper,
) -> None:
    place = f"zk+null://{zookeeper.address}/trap/ledgers"
    async with LocalCluster(1, brokers=1, zookeeper=place, traced=False) as cluster:
        assert cluster.is_up("broker-1")


@pytest.mark.usefixtures("trap")
def test_a_checkout_that_is_not_installed_is_found_by_its_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert own_path() == {"PYTHONPATH": ROOT}
    assert version(own_path()) == f"labkit {__version__}\n"


def test_an_installed_labkit_goes_before_no_standard_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr("site.getsitepackages", lambda: [ROOT])
    assert own_path() == {}


@pytest.mark.usefixtures("trap")
def test_an_empty_part_of_the_path_does_not_stand_for_the_working_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{os.pathsep}{ROOT}{os.pathsep}")
    assert own_path() == {"PYTHONPATH": ROOT}
    assert version(own_path()) == f"labkit {__version__}\n"
