"""A Java process that belongs to a cluster of labkit's is let in by its ZooKeeper."""

from pathlib import Path

import pytest

from labkit.live.cluster import LocalCluster
from tests.interop.apache import Apache
from tests.interop.bookies import BookieFolder

pytestmark = [pytest.mark.interop, pytest.mark.slow]


async def test_a_java_process_gets_in_with_the_login_file_below_data_and_not_without(
    apache: Apache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with LocalCluster(1, folder=tmp_path / "data", traced=False) as cluster:
        java = BookieFolder("java", tmp_path / "java", cluster.zookeeper)
        refused = await java.shell(apache, "listbookies", "-rw")  # Its exit code is 0 all the same.
        assert "Session closed because client failed to authenticate" in refused
        assert "bookie-1" not in refused
        login = tmp_path / "data" / "zookeeper" / "jaas.conf"
        option = f"-Djava.security.auth.login.config={login}"
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", option)
        assert "bookie-1" in await java.shell(apache, "listbookies", "-rw")
