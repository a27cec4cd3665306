import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from labkit.worlds.live.host.guard import COMMAND_NOT_FOUND, guarded

DEADLINE_S = 60

SLEEPER = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"

OWNER_WITH_A_CHILD = """
import os, subprocess, sys, time
from labkit.worlds.live.host.guard import guarded
sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
command = guarded(sleeper)
if sys.argv[1:]:  # Another program as the guard.
    command = [*sys.argv[1:], str(os.getpid()), "--", *sleeper]
process = subprocess.Popen(command, stdin=subprocess.PIPE)
child = os.fork()
if child == 0:
    for output in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    time.sleep(600)
print(child, flush=True)
time.sleep(600)
"""

GUARD_WITHOUT_PIDFD = """
import os
import labkit.worlds.live.host.guard as guard

def refuse(process):
    raise OSError("an old kernel")

os.pidfd_open = refuse
guard.CHECK_INTERVAL_S = 0.1
guard.main()
"""

STUBBORN_FAMILY = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.fork()
os.write(1, b"runs\\n")
time.sleep(600)
"""

OWNER = """
import subprocess, sys, time
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)
time.sleep(600)
"""

LATE_WATCHER = """
import os, sys, time
import labkit.worlds.live.host.guard as guard
fork = os.fork
def fork_a_late_riser():
    child = fork()
    if child == 0:
        time.sleep(0.3)
    return child
os.fork = fork_a_late_riser
report = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_APPEND)
os.killpg = lambda group, number: os.write(report, b"%d " % group)
guard.main()
"""

IMPATIENT_GUARD = """
import labkit.worlds.live.host.guard as guard
guard.GRACE_S = 0.1
guard.main()
"""


def python(script: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", script, *arguments]


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command with pipes, and kill it when the block ends."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_to_the_end(process: subprocess.Popen[bytes]) -> bytes:
    """Read until every process that writes to the pipe has exited, or fail at the deadline."""
    assert process.stdout is not None
    output = b""
    while select.select([process.stdout], [], [], DEADLINE_S)[0]:
        received = os.read(process.stdout.fileno(), 4096)
        if not received:
            return output
        output += received
    pytest.fail("a process is still running")


def first_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def close_input(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


def assert_watcher_ends(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    poll = select.poll()
    # The watcher is the only reader of this pipe, so an error on the pipe shows that it has exited.
    poll.register(process.stdin, 0)
    assert poll.poll(DEADLINE_S * 1000), "the watcher is still running"


def test_command_ends_when_its_owner_is_killed() -> None:
    with running(python(OWNER, *guarded(python(SLEEPER)))) as owner:
        assert int(first_line(owner)) != owner.pid
        owner.send_signal(signal.SIGKILL)
        read_to_the_end(owner)


@pytest.mark.parametrize("guard", [[], python(GUARD_WITHOUT_PIDFD)], ids=["pidfd", "polls"])
def test_command_ends_when_an_owner_is_killed_whose_child_lives_on(guard: list[str]) -> None:
    with running(python(OWNER_WITH_A_CHILD, *guard)) as it:
        child = int(first_line(it))
        try:
            it.send_signal(signal.SIGKILL)
            it.wait(DEADLINE_S)
            read_to_the_end(it)
            os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)


def test_what_ignores_sigterm_is_killed_with_its_children() -> None:
    guard = python(IMPATIENT_GUARD, str(os.getpid()), "--", *python(STUBBORN_FAMILY))
    with running(guard) as process:
        assert first_line(process) + first_line(process) == b"runs\nruns\n"
        close_input(process)
        read_to_the_end(process)
        assert process.wait(DEADLINE_S) == -signal.SIGKILL


def test_command_has_its_own_id_group_input_and_exit_code() -> None:
    tells = "import os, sys; print(os.getpid(), os.getpgrp(), sys.stdin.buffer.read())"
    with running(guarded(python(f"{tells}; raise SystemExit(7)"))) as process:
        pid, group, received = read_to_the_end(process).split()
        assert int(pid) == int(group) == process.pid != os.getpgrp()
        assert received == b"b''"
        assert process.wait(DEADLINE_S) == 7


def test_sigkill_from_the_owner_hits_the_command_itself() -> None:
    with running(guarded(python(SLEEPER))) as process:
        assert int(first_line(process)) == process.pid
        process.send_signal(signal.SIGKILL)
        read_to_the_end(process)
        assert process.wait(DEADLINE_S) == -signal.SIGKILL


def test_watcher_ends_with_the_command() -> None:
    with running(guarded(python("pass"))) as process:
        process.wait(DEADLINE_S)
        assert_watcher_ends(process)


def test_bytes_from_the_owner_do_not_end_the_command() -> None:
    with running(guarded(python(SLEEPER))) as process:
        first_line(process)
        assert process.stdin is not None
        process.stdin.write(b"hello")
        process.stdin.close()
        assert process.wait(DEADLINE_S) == -signal.SIGTERM


def test_command_that_does_not_exist_is_named() -> None:
    with running(guarded(["no-such-command"])) as process:
        assert process.wait(DEADLINE_S) == COMMAND_NOT_FOUND
        assert process.stderr is not None
        said = process.stderr.read()
        assert said == b"no-such-command cannot be run: No such file or directory\n"


def test_watcher_of_a_command_that_ended_at_once_signals_no_group_but_its_own(
    tmp_path: Path,
) -> None:
    signalled = tmp_path / "signalled"
    signalled.touch()
    with running(
        python(LATE_WATCHER, str(signalled), str(os.getpid()), "--", "no-such-command")
    ) as process:
        assert process.wait(DEADLINE_S) == COMMAND_NOT_FOUND
        assert_watcher_ends(process)
        assert signalled.read_text().split() == [str(process.pid)]


@pytest.mark.parametrize("arguments", [[], ["7", "--"], ["7", "true"], ["x", "--", "true"]])
def test_call_without_a_command_gets_the_usage(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "labkit.worlds.live.host.guard", *arguments],
        input=b"",
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 1
    assert b"usage: python -m labkit.worlds.live.host.guard OWNER -- command" in done.stderr
