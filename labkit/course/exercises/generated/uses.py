"""Questions to the exercises about programs on ledgers: offsets and snapshots."""

from labkit.course.checking.draw import Draw

_GROUPS = ("billing", "audit", "a", "b", "Billing", "\u00fc")
_NAMES = ("names", "users", "x")


def records(draw: Draw) -> tuple[list[tuple[str, int | None]]]:
    """Commits of some groups in their order: often of the same one, some smaller than before."""
    groups = _GROUPS[: draw.number(1, len(_GROUPS))]
    count = draw.number(0, 10)
    return ([(draw.one_of(groups), None if draw.chance(20) else draw.id()) for _ in range(count)],)


def ledgers_of_snapshots(
    draw: Draw,
) -> tuple[list[tuple[int, str, int]], dict[str, tuple[int, int]]]:
    """Ledgers of snapshots, by id, and what the nodes of some names say.

    Versions of a name are made one after the other, sometimes two of a version at a time.  A later
    version may have a smaller ledger id: its writer was quicker between id and name.
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
