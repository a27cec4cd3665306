"""Ties a foreign command (a JVM) to the life of the process that started it.

It is not on an entry's path: it keeps the machine clean. The rule: when the owner ends, even by
SIGKILL, the command ends too. An exit handler cannot promise that, and a notebook's kernel is
usually killed; but the operating system always closes a dead process's pipes.

So this process forks. The child detaches and watches the pipe that is its standard input:
end-of-file there means that the owner has ended. The parent becomes the command, so the owner sees
the command's own process id, signals and exit code.

Usage: `python -m labkit.live.guard -- command argument ...`, with a pipe as standard input.
"""

import os
import select
import signal
import sys

GRACE_S = 5.0
"""Seconds between SIGTERM and SIGKILL."""

COMMAND_NOT_FOUND = 127
READ_SIZE = 4096


def guarded(command: list[str]) -> list[str]:
    """Return the command line that runs `command` under a guard.

    Start it with a pipe as standard input and keep that pipe open: closing it ends the command.
    The process started is the command itself, so its id, its signals and its exit code are the
    command's. It leads a process group, so that `os.killpg` reaches its children as well.
    """
    # Run as a file, isolated and without site-packages: this starts in 10 ms.
    return [sys.executable, "-I", "-S", __file__, "--", *command]


def main() -> None:
    """Start the watcher, then become the command."""
    if sys.argv[1:2] != ["--"] or not sys.argv[2:]:
        sys.exit("usage: python -m labkit.live.guard -- command argument ...")
    command = sys.argv[2:]
    if os.getpgrp() != os.getpid():
        os.setsid()
    command_ended, command_lives = os.pipe()
    # Read before the fork: a watcher whose parent has ended would get init's id, 1, and a signal to
    # "group 1" goes to every process that it may reach.
    group = os.getpid()
    if os.fork() == 0:
        os.close(command_lives)
        _watch(command_ended, group)
    else:
        os.close(command_ended)
        _become(command, command_lives)


def _become(command: list[str], command_lives: int) -> None:
    # The command holds this end of the pipe until it ends, which the watcher then notices.
    os.set_inheritable(command_lives, True)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        os.execvp(command[0], command)
    except OSError as problem:
        sys.stderr.write(f"{command[0]} cannot be run: {problem.strerror}\n")
        sys.exit(COMMAND_NOT_FOUND)


def _watch(command_ended: int, group: int) -> None:
    # A new session: a signal to the command's group must not reach the watcher.
    os.setsid()
    # A reader of the command's output waits for the end of the command, not of the watcher.
    for output in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    if _owner_ends_first(command_ended):
        _signal_group(group, signal.SIGTERM)
        select.select([command_ended], [], [], GRACE_S)
    _signal_group(group, signal.SIGKILL)


def _owner_ends_first(command_ended: int) -> bool:
    while True:
        readable, _, _ = select.select([0, command_ended], [], [])
        if command_ended in readable:
            return False
        try:
            if not os.read(0, READ_SIZE):
                return True
        except ConnectionResetError:  # The pipe may be a socket pair.
            return True


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return  # No process is left in the group; macOS raises PermissionError for that.


if __name__ == "__main__":
    main()
