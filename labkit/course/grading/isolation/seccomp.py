"""Builds a seccomp filter, which is a BPF program that tells the kernel which system calls to
reject.

Most of the rejected calls allocate memory that does not count towards the address space limit.
Without Spark, a submission is a single process, possibly with threads, so the address space limit
applies to the whole submission.
"""

import platform
import struct
import sys
from errno import EAFNOSUPPORT, ENOSYS, EPERM

_INSTRUCTION = struct.Struct("=HBBI")
_LOAD, _RETURN = 0x20, 0x06
_IS_EQUAL, _IS_AT_LEAST, _HAS_BITS = 0x15, 0x35, 0x45
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Offsets in the kernel's `struct seccomp_data`; both architectures are little-endian."""
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000

_CLONE_THREAD, _CLONE_NAMESPACES = 0x00010000, 0x7E020000
_FAMILIES = (1, 2, 10)
"""AF_UNIX, AF_INET and AF_INET6. AF_VSOCK would give access to the host of a virtual machine."""
_X32 = 0x40000000

_X86_64 = {
    "clone": 56,
    "fork": 57,
    "vfork": 58,
    "socket": 41,
    "memfd_create": 319,
    "shmget": 29,
    "msgget": 68,
    "semget": 64,
    "mq_open": 240,
    "vmsplice": 278,
    "userfaultfd": 323,
    "bpf": 321,
    "perf_event_open": 298,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "ptrace": 101,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "unshare": 272,
    "setns": 308,
    "mount": 165,
    "umount2": 166,
    "pivot_root": 155,
}
_AARCH64 = {
    "clone": 220,
    "socket": 198,
    "memfd_create": 279,
    "shmget": 194,
    "msgget": 186,
    "semget": 190,
    "mq_open": 180,
    "vmsplice": 75,
    "userfaultfd": 282,
    "bpf": 280,
    "perf_event_open": 241,
    "add_key": 217,
    "request_key": 218,
    "keyctl": 219,
    "ptrace": 117,
    "process_vm_readv": 270,
    "process_vm_writev": 271,
    "unshare": 97,
    "setns": 268,
    "mount": 40,
    "umount2": 39,
    "pivot_root": 41,
}
_OF_BOTH = {
    "clone3": 435,
    "memfd_secret": 447,
    "io_uring_setup": 425,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fspick": 433,
    "mount_setattr": 442,
}
_MACHINES = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}
_HAS_OWN_RULE = ("clone", "clone3", "fork", "vfork", "socket")
"""System calls that have their own rules, rather than always being rejected."""


def program(*, has_processes: bool) -> bytes | None:
    """Return the BPF program. If `has_processes` is true, new processes are allowed; otherwise,
    only new threads are allowed.

    Returns None if this machine's system call numbers are not in the tables above.
    """
    machine = _MACHINES.get(platform.machine())
    if machine is None or sys.maxsize < 2**32:
        return None
    architecture, own = machine
    calls = own | _OF_BOTH
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IS_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_IS_AT_LEAST, 0, 1, _X32),
        _error(ENOSYS),
    ]
    for name, number in calls.items():
        if name not in _HAS_OWN_RULE:
            steps += [(_IS_EQUAL, 0, 1, number), _error(EPERM)]
    # A filter cannot read the flags of clone3, which are passed in memory. If clone3 fails with
    # ENOSYS, the C library uses clone.
    steps += [(_IS_EQUAL, 0, 1, calls["clone3"]), _error(ENOSYS)]
    if not has_processes:
        for name in ("fork", "vfork"):
            if name in calls:
                steps += [(_IS_EQUAL, 0, 1, calls[name]), _error(EPERM)]
    # Allow clone only for threads or, with `has_processes`, for anything without new namespaces.
    bits, allowed, refused = (_CLONE_NAMESPACES, 1, 0) if has_processes else (_CLONE_THREAD, 0, 1)
    steps += [(_IS_EQUAL, 0, 4, calls["clone"]), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
    steps += [(_HAS_BITS, allowed, refused, bits), (_RETURN, 0, 0, _ALLOW), _error(EPERM)]
    steps += [(_IS_EQUAL, 1, 0, calls["socket"]), (_RETURN, 0, 0, _ALLOW)]
    steps += [(_LOAD, 0, 0, _FIRST_ARGUMENT)]
    for family in _FAMILIES:
        steps += [(_IS_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(_INSTRUCTION.pack(*step) for step in [*steps, _error(EAFNOSUPPORT)])


def _error(number: int) -> tuple[int, int, int, int]:
    return _RETURN, 0, 0, _ERROR | number
