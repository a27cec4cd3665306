"""The command `labkit`, as a user runs it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import pytest

from labkit import __version__
from labkit.cli import EXIT_DISK_FAILED, EXIT_FAILED, EXIT_OK
from labkit.live.zookeeper import free_port

DEADLINE_S = 60
NOWHERE = f"127.0.0.1:{free_port()}"


def labkit(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "labkit", *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """What a failed command said: a single line."""
    assert done.stdout == ""
    line, end, rest = done.stderr.partition("\n")
    assert (end, rest) == ("\n", ""), done.stderr
    return line


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "labkit", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = Timer(DEADLINE_S, process.kill)
        deadline.start()
        try:
            yield process
        finally:
            deadline.cancel()
            process.kill()


def lines_until(process: subprocess.Popen[str], last: str) -> list[str]:
    """Lines up to the one that has this text in it; fails if the command ends before."""
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or last not in lines[-1]:
        line = process.stdout.readline()
        assert line, (lines, process.stderr.read() if process.stderr else "")
        lines.append(line)
    return lines


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_local_runs_a_cluster_until_it_is_interrupted(tmp_path: Path, number: int) -> None:
    with running("local", "--bookies", "3", "--data", str(tmp_path)) as process:
        lines = lines_until(process, "take writes")
        assert lines[0].startswith("ZooKeeper  127.0.0.1:")
        assert [line.split()[0] for line in lines[1:4]] == ["bookie-1", "bookie-2", "bookie-3"]
        assert lines[4] == "3 bookies take writes. Ctrl-C ends them all.\n"
        process.send_signal(number)
        said, complained = process.communicate(timeout=DEADLINE_S)
        assert (process.returncode, said, complained) == (EXIT_OK, "", "")
    for name in ("bookie-1", "bookie-2", "bookie-3"):
        assert (tmp_path / name / "ledgers" / "current").is_dir()


def test_local_says_where_its_brokers_are(tmp_path: Path) -> None:
    options = ("--bookies", "1", "--brokers", "1", "--data", str(tmp_path))
    with running("local", *options) as process:
        name, service_url, web_url = lines_until(process, "take writes")[2].split()
        assert name == "broker-1"
        assert service_url.startswith("pulsar://127.0.0.1:")
        assert web_url.startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == EXIT_OK


def test_broker_needs_a_metadata_store() -> None:
    done = labkit("broker", "--id", "broker-1")
    assert done.returncode == EXIT_FAILED
    assert one_line(done) == "labkit: broker-1: say --zookeeper"


def test_local_needs_a_bookie() -> None:
    done = labkit("local", "--bookies", "0")
    assert done.returncode == EXIT_FAILED
    assert one_line(done) == "labkit: a cluster of 0 bookies; it needs at least 1"


def test_local_names_the_folder_that_it_cannot_use(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_bytes(b"")
    done = labkit("local", "--bookies", "1", "--data", str(in_the_way))
    assert done.returncode == EXIT_FAILED
    assert str(in_the_way) in one_line(done)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "the following arguments are required: VERB"),
        (("fly",), "invalid choice: 'fly'"),
        (("local", "--bookies", "many"), "argument --bookies: invalid int value: 'many'"),
    ],
)
def test_wrong_arguments_are_told_with_the_usage(
    arguments: tuple[str, ...], complaint: str
) -> None:
    done = labkit(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: labkit")
    assert complaint in done.stderr


def test_version_is_that_of_the_package() -> None:
    assert labkit("--version").stdout == f"labkit {__version__}\n"


def test_help_names_every_verb() -> None:
    said = labkit("--help").stdout
    assert all(verb in said for verb in ("lab ", "local ", "bookie ", "doctor "))


def test_a_bookie_says_what_it_cannot_do_without(tmp_path: Path) -> None:
    assert "say --id, or bookieId in a file with --conf" in one_line(labkit("bookie"))
    named = labkit("bookie", "--id", "bookie-1", "--data", str(tmp_path))
    assert "say --zookeeper, or zkServers" in one_line(named)
    placeless = labkit("bookie", "--id", "bookie-1", "--zookeeper", NOWHERE)
    assert "at least one journal directory" in one_line(placeless)


def test_doctor_names_every_part_in_a_line_of_its_own() -> None:
    done = labkit("doctor")
    assert done.returncode == EXIT_OK, done.stdout
    for part in ("Python", "Java", "ZooKeeper"):
        assert any(part in line for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [
        ("--id", "no/slash", "'no/slash' cannot be a bookie id"),
        ("--id", "readonly", "'readonly' is taken"),
        ("--port", "70000", "port 70000; allowed are 1 to 65535"),
        ("--port", "-1", "port -1; allowed are 1 to 65535"),
        ("--flush-interval-ms", "0", "flush_interval_ms is 0; it must be at least 1"),
        ("--zookeeper", "127.0.0.1:none", "'127.0.0.1:none' is no ZooKeeper address"),
    ],
)
def test_bookie_refuses_what_it_cannot_take_in_one_line(
    tmp_path: Path, option: str, value: str, complaint: str
) -> None:
    given = {"--id": "bookie-1", "--data": str(tmp_path), "--zookeeper": NOWHERE, option: value}
    done = labkit("bookie", *(word for pair in given.items() for word in pair))
    assert done.returncode == EXIT_FAILED
    assert complaint in one_line(done)


@pytest.mark.slow
def test_bookie_without_its_zookeeper_says_where_it_looked(tmp_path: Path) -> None:
    done = labkit("bookie", "--id", "bookie-1", "--data", str(tmp_path), "--zookeeper", NOWHERE)
    assert done.returncode == EXIT_FAILED
    assert one_line(done) == (
        f"labkit: bookie-1: no ZooKeeper answers at {NOWHERE} within 10 s; is it running?"
    )


def test_bookie_runs_until_sigterm_and_keeps_what_it_was_given(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_bytes(b"")
    with running("local", "--bookies", "1", "--data", str(tmp_path / "cluster")) as cluster:
        address = lines_until(cluster, "take writes")[0].split()[1]
        given = ("bookie", "--id", "extra", "--zookeeper", address, "--data")
        with running(*given, str(tmp_path / "extra")) as bookie:
            assert f'"pid": {bookie.pid}' in lines_until(bookie, "trace_port")[0]
            bookie.send_signal(signal.SIGTERM)
            said, complained = bookie.communicate(timeout=DEADLINE_S)
            assert (bookie.returncode, said, complained) == (EXIT_OK, "", "")
        assert (tmp_path / "extra" / "ledgers" / "current" / "VERSION").is_file()
        done = labkit(*given, str(in_the_way))
        assert done.returncode == EXIT_DISK_FAILED
        assert str(in_the_way) in one_line(done)


def test_lab_wants_a_notebook_that_is_there(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "labkit", "lab", "nowhere.ipynb"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == EXIT_FAILED
    assert one_line(done) == "labkit: there is no nowhere.ipynb here; run this in labkit's folder"
