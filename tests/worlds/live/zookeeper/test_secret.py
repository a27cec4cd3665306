"""Processes of the same user can find the secret of a ZooKeeper server."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.system.model.missing_part import MissingPart
from labkit.worlds.live.zookeeper.secret import SECRET_VARIABLE, publish, sasl_options, withdraw

ADDRESS = "127.0.0.1:2181"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv(SECRET_VARIABLE, raising=False)
    return tmp_path / f"labkit-{os.geteuid()}"


def password() -> str | None:
    options = sasl_options(ADDRESS)
    return options["password"] if options else None


def ended_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        return process.pid


def test_a_secret_is_found_by_the_servers_address_until_it_is_withdrawn() -> None:
    assert password() is None
    publish(ADDRESS, "sesame", os.getpid())
    assert password() == "sesame"
    assert sasl_options("127.0.0.1:2182") is None
    assert sasl_options("localhost:2181") == sasl_options(ADDRESS)
    withdraw(ADDRESS, "sesame")
    assert password() is None
    withdraw(ADDRESS, "sesame")


def test_the_environment_holds_the_secret_of_any_server_that_published_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, "from outside")
    assert password() == "from outside"
    publish(ADDRESS, "sesame", os.getpid())
    assert password() == "sesame"


def test_the_secret_of_a_killed_server_is_not_used(temporary: Path) -> None:
    publish(ADDRESS, "sesame", ended_process())
    assert password() is None
    publish("127.0.0.1:1", "another", os.getpid())
    assert [path.name for path in temporary.iterdir()] == ["zookeeper-127.0.0.1%3A1"]


def test_a_file_that_another_server_is_about_to_publish_is_left_to_it(temporary: Path) -> None:
    publish(ADDRESS, "sesame", os.getpid())
    young, old = temporary / "unfinished-1", temporary / "unfinished-2"
    for path in (young, old):
        path.touch()
    os.utime(old, (0, 0))
    publish(ADDRESS, "sesame", os.getpid())
    assert (young.exists(), old.exists()) == (True, False)


def test_the_files_of_secrets_are_for_their_owner(temporary: Path) -> None:
    publish(ADDRESS, "sesame", os.getpid())
    assert temporary.stat().st_mode & 0o777 == 0o700
    [file] = temporary.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_another_user_has_put_there_is_not_believed(temporary: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can run programs as another user")
    publish(ADDRESS, "sesame", os.getpid())
    os.chown(temporary, 65534, 65534)
    assert password() is None
    with pytest.raises(MissingPart, match=r"belongs to another user.*remove .*, or set TMPDIR"):
        publish(ADDRESS, "sesame", os.getpid())


def test_a_link_in_its_place_is_not_followed(temporary: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(0o700)
    temporary.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MissingPart, match=r"cannot be kept in .*: it is not a folder"):
        publish(ADDRESS, "sesame", os.getpid())


def test_the_secret_of_a_later_server_at_the_same_address_is_kept() -> None:
    publish(ADDRESS, "sesame", ended_process())
    publish(ADDRESS, "later", os.getpid())
    withdraw(ADDRESS, "sesame")
    assert password() == "later"
