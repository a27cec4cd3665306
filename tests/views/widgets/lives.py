"""The life of one bookie, from its first entry to a crash and beyond."""

from labkit.course.runs.bookie.one_bookie import OneBookie

PAGE_SIZE = 512


def whole_life() -> OneBookie:
    """Run every kind of operation on a bookie, including a crash and the subsequent replay."""
    bookie = OneBookie()
    bookie.add((7, 0), (8, 0))
    bookie.commit()
    bookie.add((7, 1), (8, 4))
    bookie.commit()
    bookie.read(7, 0)
    bookie.flush()
    bookie.read(7, 0)
    bookie.add((8, 5), (7, 2))
    bookie.set_explicit_lac(7, 1)
    bookie.commit()
    bookie.add((7, 3))
    bookie.fence(9)
    bookie.crash()
    bookie.restart()
    bookie.add((7, 3), (7, 70))
    bookie.commit()
    bookie.fence(9)
    bookie.commit()
    bookie.flush()
    bookie.add((8, 6))
    return bookie
