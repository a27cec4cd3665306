"""Ties a foreign command (a JVM) to the life of the process that started it.

It is not on an entry's path: it keeps the machine clean. The rule: when the owner ends, even by
SIGKILL, the command ends too. An exit handler cannot promise that, and a notebook's kernel is
usually killed; but the operating system always closes a dead process's pipes.

So this process forks. The child detaches and watches the pipe that is its standard input:
end-of-file there means that the owner has ended. It also watches the owner's process: if the owner
has forked, its child keeps the pipe open. The parent becomes the command, so the owner sees the
command's own process id, signals and exit code.

Usage: `python -m labkit.worlds.live.host.guard OWNER -- command argument ...`, with the owner's
process id, and a pipe as standard input.
"""

import os
import select
import signal
import sys

GRACE_S = 5.0
"""Seconds between SIGTERM and SIGKILL."""

LOOK_INTERVAL_S = 1.0
"""Seconds between looks at the owner, where the system has no descriptors of processes."""

COMMAND_NOT_FOUND = 127
READ_SIZE = 4096


def guarded(command: list[str]) -> list[str]:
    """Return the command line that runs `command` under a guard, owned by this process.

    Start it with a pipe as standard input and keep that pipe open: closing it ends the command.
    The process started is the command itself, so its id, its signals and its exit code are the
    command's. It leads a process group, so that `os.killpg` reaches its children as well.
    """
    # Run as a file, isolated and without site-packages: this starts in 10 ms.
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), "--", *command]


def main() -> None:
    """Start the watcher, then become the command."""
    owner, command = "".join(sys.argv[1:2]), sys.argv[3:]
    if not owner.isdecimal() or sys.argv[2:3] != ["--"] or not command:
        sys.exit("usage: python -m labkit.worlds.live.host.guard OWNER -- command argument ...")
    if os.getpgrp() != os.getpid():
        os.setsid()
    command_ended, command_lives = os.pipe()
    # Read before the fork: a watcher whose parent has ended would get init's id, 1, and a signal to
    # "group 1" goes to every process that it may reach.
    group = os.getpid()
    if os.fork() == 0:
        os.close(command_lives)
        _watch(command_ended, group, int(owner))
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


def _watch(command_ended: int, group: int, owner: int) -> None:
    # A new session: a signal to the command's group must not reach the watcher.
    os.setsid()
    # A reader of the command's output waits for the end of the command, not of the watcher.
    for output in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    if _owner_ends_first(command_ended, owner):
        _signal_group(group, signal.SIGTERM)
        select.select([command_ended], [], [], GRACE_S)
    _signal_group(group, signal.SIGKILL)


def _owner_ends_first(command_ended: int, owner: int) -> bool:
    owner_ended: list[int] = []
    if sys.platform == "linux":
        try:
            owner_ended.append(os.pidfd_open(owner))
        except OSError:
            """The kernel is old, or the owner has ended already."""
    interval_s = None if owner_ended else LOOK_INTERVAL_S
    while True:
        readable, _, _ = select.select([0, command_ended, *owner_ended], [], [], interval_s)
        if command_ended in readable:
            return False
        if owner_ended and owner_ended[0] in readable:
            return True
        if not readable and not _is_alive(owner):
            return True
        if 0 not in readable:
            continue
        try:
            if not os.read(0, READ_SIZE):
                return True
        except ConnectionResetError:  # The pipe may be a socket pair.
            return True


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # It runs as another user.
        return True
    return True


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return  # No process is left in the group; macOS raises PermissionError for that.


if __name__ == "__main__":
    main()
