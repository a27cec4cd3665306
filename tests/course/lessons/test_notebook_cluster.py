import pytest

from labkit.course.lessons import start
from labkit.system.model.errors import LabkitError
from labkit.worlds.live.processes.cluster import LocalCluster

pytestmark = pytest.mark.java


async def test_a_start_cell_that_is_run_again_ends_the_cluster_that_it_started_before() -> None:
    first = await start(LocalCluster(1, traced=False))
    second = await start(LocalCluster(1, traced=False))
    assert not first.is_up("b0")
    assert not first.embedded_zookeeper.is_up
    assert not first.folder.exists()
    assert second.is_up("b0")
    await second.stop()


async def test_a_cluster_that_was_stopped_or_did_not_start_is_in_nobodys_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped = await start(LocalCluster(1, traced=False))
    await stopped.stop()
    unstarted = LocalCluster(1, traced=False)
    monkeypatch.setattr(unstarted, "command_of", lambda name, command: ["false"])
    with pytest.raises(LabkitError):
        await start(unstarted)
    third = await start(LocalCluster(1, traced=False))
    assert third.is_up("b0")
    await third.stop()
