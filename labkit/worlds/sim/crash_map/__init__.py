"""Stops a machine before each of its disk operations, and checks which data survive a restart.

    crash_map   runs a script, crashes it in every way before each operation, and checks the result
    files_left  describes the files that a crash has left on the disks

Start with `crash_map`.
"""
