"""Generates test cases about programs that store their data in ledgers, namely offsets and
snapshots.
"""

from labkit.course.checking.generated_cases import Draw

_GROUPS = ("billing", "audit", "a", "b", "Billing", "\u00fc")
_NAMES = ("names", "users", "x")


def records(draw: Draw) -> tuple[list[tuple[str, int | None]]]:
    """Return the commits of several groups, some of which commit repeatedly or return to an earlier
    offset.
    """
    groups = _GROUPS[: draw.number(1, len(_GROUPS))]
    count = draw.number(0, 10)
    return ([(draw.one_of(groups), _offset(draw)) for _ in range(count)],)


def _offset(draw: Draw) -> int | None:
    """Return an offset or None. A failing case shrinks to offset 1, because 0 can be a special
    case.
    """
    if draw.chance(20):
        return None
    return 0 if draw.chance(15) else draw.id(1)


def ledgers_of_snapshots(
    draw: Draw,
) -> tuple[list[tuple[int, str, int]], dict[str, tuple[int, int]]]:
    """Return snapshot ledgers sorted by id, and the contents of each name's metadata node.

    The versions of a name are created one after another; sometimes, two ledgers with the same
    version are created at the same time. A later version may have a smaller ledger id, because its
    writer was faster.
    """
    made: list[tuple[str, int]] = []
    newest: dict[str, int] = {}
    for name in _NAMES[: draw.number(1, len(_NAMES))]:
        last = draw.number(0, 11)
        newest[name] = last
        first = max(1, last - draw.number(0, 2))
        versions = [v for v in range(first, last + 1) for _ in range(draw.number(1, 2))]
        made += [(name, v) for v in (*versions, *[last + 1] * draw.number(0, 2))]
    least, gap, jump = draw.id(), draw.number(1, 3), draw.one_of((100, 2**31, 2**32))
    ids = [least + gap * (at // 2) + jump * (at % 2) for at in range(len(made))]
    ledgers = sorted(
        (ledger_id, *each) for ledger_id, each in zip(ids, draw.shuffled(made), strict=True)
    )
    named = {}
    for name, version in newest.items():
        of_version = [ledger_id for ledger_id, n, v in ledgers if (n, v) == (name, version)]
        if of_version:
            named[name] = version, draw.one_of(of_version)
    return ledgers, named
