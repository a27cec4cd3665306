"""Tests the `labkit` command by running it as a user does."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import psutil
import pytest

from labkit import __version__
from labkit.cli.main import main
from labkit.course.workshop.tracks import track
from labkit.worlds.live.host.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from labkit.worlds.live.host.ports import free_port

DEADLINE_S = 60
NOWHERE = f"127.0.0.1:{free_port()}"


def labkit(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command until it exits."""
    return subprocess.run(
        [sys.executable, "-m", "labkit", *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """Return the single line that a failed command printed."""
    assert (done.returncode, done.stdout) == (EXIT_FAILED, "")
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
        # Under nohup, SIGHUP is ignored, and the servers would inherit this.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        deadline = Timer(DEADLINE_S, process.kill)
        deadline.start()
        try:
            yield process
        finally:
            deadline.cancel()
            process.kill()


def lines_until(process: subprocess.Popen[str], last: str) -> list[str]:
    """Read lines up to the first one that contains `last`; fail if the command exits before it."""
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or last not in lines[-1]:
        line = process.stdout.readline()
        assert line, (lines, process.stderr.read() if process.stderr else "")
        lines.append(line)
    return lines


@pytest.mark.java
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_local_runs_a_cluster_until_it_is_interrupted(tmp_path: Path, number: int) -> None:
    options = ("--bookies", "2", "--brokers", "1", "--data", str(tmp_path))
    with running("local", *options) as process:
        lines = lines_until(process, "accept writes")
        assert lines[0].startswith("ZooKeeper  127.0.0.1:")
        assert [line.split()[0] for line in lines[1:3]] == ["b0", "b1"]
        name, service_url, web_url = lines[3].split()
        assert name == "broker-1"
        assert service_url.startswith("pulsar://127.0.0.1:")
        assert web_url.startswith("http://127.0.0.1:")
        assert lines[4] == "2 bookies accept writes. Press Ctrl-C to stop all servers.\n"
        process.send_signal(number)
        said, complained = process.communicate(timeout=DEADLINE_S)
        assert (process.returncode, said, complained) == (EXIT_OK, "", "")
    for name in ("b0", "b1"):
        assert (tmp_path / name / "ledgers" / "current").is_dir()


@pytest.mark.java
def test_local_says_when_a_bookie_or_its_zookeeper_has_ended(tmp_path: Path) -> None:
    with running("local", "--bookies", "1", "--data", str(tmp_path)) as process:
        _, where, word, pid, folder = lines_until(process, "accept writes")[1].split()
        assert where.startswith("127.0.0.1:")
        assert word == "process"
        os.kill(int(pid), signal.SIGKILL)
        assert process.stderr is not None
        assert process.stderr.readline() == (
            f"labkit: b0 was terminated by SIGKILL; its log is in {folder}\n"
        )
        children = psutil.Process(process.pid).children()
        [server] = [each for each in children if "java" in each.name()]
        server.kill()
        said = process.stderr.readline()
        assert said.startswith(
            f"labkit: ZooKeeper has exited; its log is in {tmp_path / 'zookeeper'}. Without it,"
        )
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=DEADLINE_S) == ("", "")
        assert process.returncode == EXIT_OK


def stopped_while_it_waits(number: int, *arguments: str) -> tuple[int, str, str]:
    """Run a command, whose argument `{}` is replaced by the address of a ZooKeeper that never
    responds, and send it a signal. Return its exit code and its output.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(DEADLINE_S)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with (
            running(*(each.format(address) for each in arguments)) as process,
            server.accept()[0] as connection,
        ):
            process.send_signal(number)
            connection.close()
            said, complained = process.communicate(timeout=DEADLINE_S)
    return process.returncode, said, complained


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    "verb",
    [
        ("bookie", "--id", "b0", "--data", "b0"),
        ("broker", "--id", "broker-1"),
        ("autorecovery",),
        ("local", "--bookies", "1"),
    ],
    ids=lambda verb: verb[0],
)
def test_a_server_that_is_stopped_while_it_starts_ends_without_complaint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verb: tuple[str, ...], number: int
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert stopped_while_it_waits(number, *verb, "--zookeeper", "{}") == (EXIT_OK, "", "")
    assert not list(tmp_path.glob("labkit-*"))


@pytest.mark.slow
def test_an_interrupt_ends_a_verb_without_a_traceback() -> None:
    verb = ("shell", "--zookeeper", "{}", "listbookies")
    assert stopped_while_it_waits(signal.SIGINT, *verb) == (EXIT_INTERRUPTED, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_client_that_is_stopped_before_its_end_has_not_succeeded(number: int) -> None:
    verb = ("client", "--file", str(track("client").solution), "--zookeeper", "{}", "take", "1")
    assert stopped_while_it_waits(number, *verb) == (EXIT_INTERRUPTED, "", "")


@pytest.mark.slow
def test_autorecovery_without_its_zookeeper_says_so() -> None:
    done = labkit("autorecovery", "--zookeeper", "127.0.0.1:none")
    assert "'127.0.0.1:none' is not a ZooKeeper address" in refusal(done)


@pytest.mark.slow
def test_local_says_why_it_does_not_start(tmp_path: Path) -> None:
    done = labkit("local", "--bookies", "1", "--zookeeper", "127.0.0.1:99999")
    assert refusal(done).startswith(
        "labkit: b0 did not start: '127.0.0.1:99999' is not a ZooKeeper address"
    )
    in_the_way = tmp_path / "file"
    in_the_way.write_bytes(b"")
    done = labkit("local", "--bookies", "1", "--data", str(in_the_way))
    assert str(in_the_way) in refusal(done)


BOOKIE = "bookie --id b0 --data data --zookeeper 127.0.0.1:1"
"""The address is constant, because each worker of the tests must find the same test names."""


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (
            "broker --id broker-1",
            "labkit: broker-1: specify --zookeeper, or metadataStoreUrl in a file passed with",
        ),
        ("local --bookies 0", "expected at least 1 bookie and at least 0 brokers, got 0 and 0"),
        ("local --brokers -1", "expected at least 1 bookie and at least 0 brokers, got 3 and -1"),
        ("search --first -1", "labkit: --first, --seeds and --jobs must not be negative"),
        ("search --seeds -1", "labkit: --first, --seeds and --jobs must not be negative"),
        ("search --jobs -1", "labkit: --first, --seeds and --jobs must not be negative"),
        ("bookie", "specify --id, or bookieId or advertisedAddress in a file passed with --conf"),
        ("bookie --id b0 --data data", "specify --zookeeper, or metadataServiceUri"),
        ("bookie --id b0 --zookeeper 127.0.0.1:1", "at least one journal directory"),
        (f"{BOOKIE} --id no/slash", "invalid bookie id 'no/slash'"),
        (f"{BOOKIE} --id readonly", "'readonly', '.' and '..' are reserved"),
        (f"{BOOKIE} --id ..", "invalid bookie id '..'"),
        (f"{BOOKIE} --port 70000", "--port is 70000; it must be at least 0 and at most 65535"),
        (f"{BOOKIE} --port -1", "--port is -1; it must be at least 0 and at most 65535"),
        (f"{BOOKIE} --flush-interval-ms 0", "--flush-interval-ms is 0; it must be at least 1"),
    ],
)
def test_what_a_verb_cannot_do_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
    complaint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) == EXIT_FAILED
    output, errors = capsys.readouterr()
    assert (output, errors.count("\n")) == ("", 1)
    assert complaint in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "the following arguments are required: VERB"),
        (("fly",), "invalid choice: 'fly'"),
        (("local", "--bookies", "many"), "argument --bookies: invalid int value: 'many'"),
    ],
)
def test_wrong_arguments_are_answered_with_the_usage(
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


def test_doctor_names_every_part_in_a_separate_line() -> None:
    done = labkit("doctor")
    assert done.returncode == EXIT_OK, done.stdout
    for part in ("Python", "Java", "ZooKeeper"):
        assert any(part in line for line in done.stdout.splitlines())


def test_a_reader_that_leaves_early_causes_no_error() -> None:
    with running("doctor") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(DEADLINE_S) == EXIT_OK


@pytest.mark.sampled
@pytest.mark.parametrize("stream", [1, 2])
def test_a_closed_output_causes_no_error(stream: int) -> None:
    closed = f"exec {stream}>&-; exec {sys.executable} -m labkit handout /dev/null/class 05"
    done = subprocess.run(
        ["sh", "-c", closed], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert (done.returncode, done.stdout) == (EXIT_FAILED, "")
    assert done.stderr.count("\n") == (stream == 1), done.stderr


@pytest.mark.slow
def test_bookie_without_its_zookeeper_says_where_it_looked(tmp_path: Path) -> None:
    done = labkit("bookie", "--id", "b0", "--data", str(tmp_path), "--zookeeper", NOWHERE)
    assert refusal(done) == (
        f"labkit: b0: ZooKeeper at {NOWHERE} did not respond within 10 s; is it running?"
    )


@pytest.mark.java
def test_bookie_runs_until_sigterm_and_keeps_what_it_was_given(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_bytes(b"")
    with running("local", "--bookies", "1", "--data", str(tmp_path / "cluster")) as cluster:
        address = lines_until(cluster, "accept writes")[0].split()[1]
        given = ("bookie", "--id", "extra", "--zookeeper", address, "--data")
        with running(*given, str(tmp_path / "extra")) as bookie:
            assert f'"pid": {bookie.pid}' in lines_until(bookie, "trace_port")[0]
            bookie.send_signal(signal.SIGTERM)
            said, complained = bookie.communicate(timeout=DEADLINE_S)
            assert (bookie.returncode, said, complained) == (EXIT_OK, "", "")
        assert (tmp_path / "extra" / "ledgers" / "current" / "VERSION").is_file()
        done = labkit(*given, str(in_the_way))
        assert f"{in_the_way} is a file, expected a folder: " in refusal(done)


@pytest.mark.java
def test_a_port_that_is_taken_is_named_before_anything_is_made(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running("local", "--bookies", "1", "--data", str(tmp_path / "cluster")) as cluster:
        address = lines_until(cluster, "accept writes")[0].split()[1]
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            for verb in (
                ("bookie", "--id", "extra", "--data", str(data), "--port", port),
                ("broker", "--id", "broker-1", "--port", port),
                ("broker", "--id", "broker-1", "--web-port", port),
            ):
                done = labkit(*verb, "--zookeeper", address)
                assert refusal(done) == (
                    f"labkit: {verb[2]}: port {port} of 127.0.0.1 is in use by another program;"
                    " choose another port, or 0 for any free port"
                )
        known = labkit("shell", "--zookeeper", address, "listbookies", "-a").stdout
    assert not data.exists()
    assert "extra" not in known
