"""One machine alone, stopped at every one of its disk operations.

    crash_map   runs a script, stops it before each operation in every way, and judges the restart
    files_left  what a crash left on the disks, in words and bytes

Read `crash_map` first.
"""
