"""Terminates a command, such as a JVM, when the process that started it exits, even if that process
is killed by SIGKILL.

An exit handler cannot do this, because it does not run after SIGKILL, and notebook kernels are
usually killed with SIGKILL. However, the operating system always closes the pipes of a dead
process.

This process therefore forks. The child detaches itself and watches the pipe on its standard input.
End-of-file means that the owner has exited. The child also watches the owner's process id, because
the pipe stays open if the owner has forked. The parent calls `exec` to become the command, so the
owner sees the command's own process id, signals and exit code.

Usage: `python -m labkit.worlds.live.host.guard OWNER -- command argument ...`, where OWNER is the
owner's process id, and standard input is a pipe.
"""

import os
import select
import signal
import sys

GRACE_S = 5.0
"""Seconds between SIGTERM and SIGKILL."""

CHECK_INTERVAL_S = 1.0
"""How often to check the owner on systems without process descriptors (pidfd)."""

COMMAND_NOT_FOUND = 127
READ_SIZE = 4096


def guarded(command: list[str]) -> list[str]:
    """Return the command line that runs `command` under a guard owned by this process.

    Start the returned command with a pipe as its standard input, and keep the pipe open. Closing
    the pipe ends `command`. The process id, the signals and the exit code are those of `command`
    itself. The command leads a process group, so `os.killpg` also reaches its children.
    """
    # Run this file in isolated mode and without site-packages, because Python then starts in only
    # 10 ms.
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), "--", *command]


def main() -> None:
    """Start the watcher, then become the command."""
    owner, command = "".join(sys.argv[1:2]), sys.argv[3:]
    if not owner.isdecimal() or sys.argv[2:3] != ["--"] or not command:
        sys.exit("usage: python -m labkit.worlds.live.host.guard OWNER -- command argument ...")
    if os.getpgrp() != os.getpid():
        os.setsid()
    command_ended, command_lives = os.pipe()
    # Get the id before the fork. If the watcher called `getppid` after its parent had exited, it
    # would get 1, the id of init. A signal to "group 1" would then be sent to every process that
    # the user may signal.
    group = os.getpid()
    if os.fork() == 0:
        os.close(command_lives)
        _watch(command_ended, group, int(owner))
    else:
        os.close(command_ended)
        _become(command, command_lives)


def _become(command: list[str], command_lives: int) -> None:
    # The command holds this end of the pipe until it exits, so the watcher notices its exit.
    os.set_inheritable(command_lives, True)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        os.execvp(command[0], command)
    except OSError as problem:
        sys.stderr.write(f"{command[0]} cannot be run: {problem.strerror}\n")
        sys.exit(COMMAND_NOT_FOUND)


def _watch(command_ended: int, group: int, owner: int) -> None:
    # Start a new session, so that a signal to the command's group does not reach the watcher.
    os.setsid()
    # Whoever reads the command's output waits for the command to exit, not for the watcher.
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
            """The kernel does not support pidfd, or the owner has already exited."""
    interval_s = None if owner_ended else CHECK_INTERVAL_S
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
    except OSError as error:
        return isinstance(error, PermissionError)  # The process runs as another user.
    return True


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return  # The group is empty. macOS raises PermissionError in this case.


if __name__ == "__main__":
    main()
