"""Each check of `labkit doctor` says what it found, or what is wrong and what to do."""

import os
import platform
import re
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
NOWHERE = Path("/nowhere")

FIT = CheckResult("Fit", "all is well")
UNFIT = CheckResult("Unfit", "it is broken", "fix it")
OPTIONAL = CheckResult("Chromium", "not there", "get it")


def refusal(check: doctor.Check) -> str:
    """Return the error message of a failed check."""
    with pytest.raises(MissingPart) as caught:
        check()
    assert caught.value.remedy
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.java
def test_doctor_finds_every_required_part_where_the_tests_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    results = doctor.run_doctor()
    assert [result for result in results if result.mark == "FAIL"] == []
    assert doctor.exit_code(results) == 0
    assert len({result.name for result in results}) == len(results)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.java
def test_a_working_folder_that_was_deleted_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    found = {result.name: result for result in doctor.run_doctor()}
    assert found["Folder"].mark == "FAIL"


def test_each_finding_is_one_line_with_a_mark_and_its_remedy() -> None:
    assert doctor.format_results([FIT, UNFIT, OPTIONAL]).splitlines() == [
        "ok    Fit       all is well",
        "FAIL  Unfit     it is broken; fix it",
        "--    Chromium  not there; get it",
    ]
    assert doctor.format_results([]) == ""


def test_only_a_required_part_fails_the_doctor() -> None:
    assert doctor.exit_code([FIT, OPTIONAL]) == 0
    assert doctor.exit_code([FIT, UNFIT]) == 1


def no_module(name: str) -> None:
    """Stand in for `find_spec` where nothing is installed."""


def no_port() -> int:
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize(
    ("check", "changed", "found", "message"),
    [
        (doctor.python, "sys.version_info", (3, 10, 4, "final", 0), "Python: 3.10.4 at "),
        (doctor.zookeeper, "importlib.util.find_spec", no_module, "ZooKeeper: PySpark, whose"),
        (doctor.spark, "importlib.util.find_spec", no_module, "pip install 'pyspark[connect]'"),
        (
            partial(doctor.disk_space, Path("/")),
            "labkit.cli.doctor.DISK_NEEDED_MIB",
            1 << 40,
            f"MiB free in /, {1 << 40} MiB needed; free some space",
        ),
        (
            doctor.memory,
            "labkit.cli.doctor.MEMORY_NEEDED_MIB",
            1 << 40,
            f"on this machine, {1 << 40} MiB needed; stop other notebooks",
        ),
        (doctor.port, "labkit.cli.doctor.free_port", no_port, "address: Permission denied; allow"),
        (
            partial(doctor.notebook_part, "jupyterlab"),
            "importlib.metadata.version",
            lambda name: "3.6.1",
            "jupyterlab: 3.6.1 (at least 4 needed); run `pip install --upgrade jupyterlab`",
        ),
        (
            partial(doctor.notebook_part, "no-such-part"),
            "labkit.cli.doctor.NOTEBOOK_PARTS",
            {"no-such-part": 1},
            "no-such-part: not installed; run `pip install no-such-part`",
        ),
        (doctor.chromium, "shutil.which", lambda name: None, "Chromium: not found, needed only"),
    ],
)
def test_what_does_not_suffice_is_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
    check: doctor.Check,
    changed: str,
    found: object,
    message: str,
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://somewhere:15002")
    monkeypatch.setattr("labkit.cli.doctor.CGROUP_FOLDER", NOWHERE)
    monkeypatch.setattr(changed, found)
    assert message in refusal(check)


def test_what_suffices_is_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "DISK_NEEDED_MIB", 0)
    monkeypatch.setattr(doctor, "MEMORY_NEEDED_MIB", 1)
    assert doctor.result_of("Folder", partial(doctor.writable, tmp_path)) == CheckResult(
        "Folder", f"{tmp_path} is writable"
    )
    assert list(tmp_path.iterdir()) == []
    assert f"MiB free in {tmp_path}, 0 MiB needed" in doctor.disk_space(tmp_path)
    assert "1 MiB needed" in doctor.memory()
    assert doctor.python().endswith(f" at {sys.executable}")
    assert platform.release() in doctor.system()
    assert "(at least 4 needed)" in doctor.notebook_part("jupyterlab")


def test_folder_that_is_a_file_or_does_not_exist_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    check = partial(doctor.writable, file)
    assert refusal(check).startswith(f"Folder: {file} is not writable: ")
    assert doctor.result_of("Folder", check).mark == "FAIL"
    assert "No such file or directory" in refusal(partial(doctor.disk_space, NOWHERE))


def test_memory_is_not_known_without_psutil(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert "psutil is not installed; run `pip install psutil`" in refusal(doctor.memory)


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
    assert "424 MiB available within this container's limit" in refusal(doctor.memory)


def test_control_group_without_a_limit_does_not_count(tmp_path: Path) -> None:
    assert doctor.cgroup_memory_left_mib(tmp_path) is None
    write_cgroup_v1(tmp_path, "9223372036854771712")
    assert doctor.cgroup_memory_left_mib(tmp_path) is None
    write_cgroup_v2(tmp_path, "max")
    assert doctor.cgroup_memory_left_mib(tmp_path) is None


def test_a_browser_is_the_one_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROWSER_PATH", "/bin/sh")
    assert doctor.chromium() == "/bin/sh"


def test_doctor_says_which_spark_runs_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.delenv("SPARK_MASTER", raising=False)
    assert re.fullmatch(r"4\.\d+\.\d+, in a JVM on this machine", doctor.spark())
    monkeypatch.setenv("SPARK_MASTER", "spark://somewhere:7077")
    assert "on the cluster spark://somewhere:7077" in doctor.spark()


def test_what_other_users_of_the_machine_can_do_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / f"labkit-{os.geteuid()}"
    assert "but can connect to its bookies" in doctor.other_users()
    assert not folder.exists()
    folder.write_text("no folder")
    assert f"remove {folder}, or set TMPDIR" in refusal(doctor.other_users)
