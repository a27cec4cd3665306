"""Stops a machine at every one of its disk operations, and checks what survives the restart.

    crash_map   runs a script, crashes it in every way before each operation, checks the restart
    files_left  describes the files that a crash left on the disks

Start with `crash_map`.
"""
