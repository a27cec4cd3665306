"""Stops one machine at every one of its disk operations, and checks what it finds at its restart.

    crash_map   runs a script, stops it before each operation in every way, and judges the restart
    files_left  what a crash left on the disks, in words and bytes

Read `crash_map` first.
"""
