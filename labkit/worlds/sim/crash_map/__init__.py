"""Stops a machine before each of its disk operations, and checks what has survived after a restart.

    crash_map   runs a script, crashes it in every way before each operation, and checks the result
    files_left  describes the files that a crash left on the disks

Start with `crash_map`.
"""
