"""Generates the full report and the ten figures of docs/performance.md from stored runs.

    runs -> goals: met or missed -> for each family: how it is measured, machine, table, plots

The report is written when the site is built; it is not committed.
"""

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.chart import Bars, Line, bar_chart, line_chart
from benchmarks.measure import Figure, markdown_table, short, table
from benchmarks.results import Run

_AGREE = 0.2
"""Two medians agree if they differ by at most this fraction of the larger one."""
_FLAT = 1.5
"""The goal for the cost of a unit of work at the end of a series, relative to its beginning."""
_NO_UNIT_OF_WORK = {"ledgers": (" an entry", " MB")}
"""For each axis, the units of series that include another cost; they are drawn without a goal."""
_GROWTH = ("growth", "spark-planning")
"""Families that consist of series."""
_THREADS = "thread-times"
_STAGE = "stage of an add: "
_CHARTS = {
    "replication": (
        "replication-speed.svg",
        "One client, three bookies: E=3, Qw=3, Qa=2, 1 KiB",
    ),
    "spark-scale": ("spark-scale.svg", "The three jobs of lesson 12 on one machine"),
}
"""For each family that compares systems, the file name and the title of its bar chart."""


_KEY_FIGURES = (
    ("replication", "adds a second, times BookKeeper's", "adds per second, relative to BookKeeper"),
    (
        "replication",
        "CPU of an add, all processes, times BookKeeper's",
        "processor time per add, client and bookies, relative to BookKeeper",
    ),
    (
        "replication",
        "reads a second, tailing, times BookKeeper's",
        "tailing reads per second, relative to BookKeeper",
    ),
    (
        "replication",
        "reads a second, catch-up, times BookKeeper's",
        "catch-up reads per second, relative to BookKeeper",
    ),
    (
        "replication",
        "re-replication, bytes a second, of the add path's",
        "bytes re-replicated per second, relative to adds",
    ),
    (
        "replication",
        "ZooKeeper and five bookies, from nothing to the first acknowledged add",
        "time to start ZooKeeper and five bookies and acknowledge the first add",
    ),
    (
        "storage",
        "adds in groups of 64, of raw append + fdatasync",
        "adds per second in groups of 64, relative to raw writes with `fdatasync`",
    ),
    (
        "storage",
        "adds in groups of 64, times RocksDB, synced WAL",
        "adds per second in groups of 64, relative to RocksDB with a synced log",
    ),
    ("storage", "memory of a bookie at rest", "memory of an idle bookie"),
    (
        "storage",
        "adds in groups of 256: what tracing takes without a listener",
        "share of an add's time spent on tracing when nobody listens",
    ),
)
"""The family and the name of each figure on the page, and its description there."""

_BEGIN, _END = "<!-- key figures: begin -->\n", "<!-- key figures: end -->\n"

_INTRODUCTION = """\
# All benchmark results

`make bench` runs every benchmark family and stores each run in `benchmarks/results`, with its
machine, versions, load and all repeats. This page is generated from these files; each table shows
the latest run of its family.

- A **ratio** compares two runs that follow each other on the same machine, because absolute speed
  depends on the machine and on its other load.
- A figure is **confirmed** if two runs on different days differ by at most a fifth. A run that
  started at a load average of 1 or more was made on a busy machine: its processor times, bytes and
  counts can confirm a figure, but its elapsed times cannot.
"""


def report(runs: Sequence[Run]) -> str:
    """Return the full report on `runs`, which are sorted by day, as Markdown."""
    parts = [
        _INTRODUCTION,
        f"## Goals\n\n{goals(runs)}",
        f"## Where an add's processor time goes\n\n{profile(runs)}",
    ]
    for family, run in _latest(runs).items():
        made = _threads(run) if family == _THREADS else _growth([run])
        if plain := [figure for figure in run.figures if not figure.conditions]:
            made += table(plain)
        parts.append(f"## {family}\n\n{_method(family)}\n\n{_measured_on(run)}{made}")
        if family in _CHARTS:
            picture, title = _CHARTS[family]
            parts.append(f"![{title}]({picture})\n")
    return "\n".join(parts)


def with_key_figures(text: str, runs: Sequence[Run]) -> str:
    """Return `text`, the contents of docs/performance.md, with an updated table of key figures.

    Raises `ValueError` if `text` lacks one of the two comments around the table.
    """
    before, found, rest = text.partition(_BEGIN)
    _, closed, after = rest.partition(_END)
    if not (found and closed):
        raise ValueError(f"docs/performance.md needs the lines {_BEGIN}{_END}")
    latest = _latest(runs)
    rows = [
        (wording, figure.goal, figure.seen, _result(figure), latest[family].day)
        for family, name, wording in _KEY_FIGURES
        for figure in _figures_of(latest, family)
        if figure.name == name and not figure.conditions
    ]
    head = ("figure", "goal", "measured", "goal met", "measured on")
    return before + _BEGIN + markdown_table(head, rows) + _END + after


def _method(family: str) -> str:
    """Return the docstring of the family's module, which explains how the family is measured."""
    module = Path(__file__).with_name(f"{family.replace('-', '_')}.py")
    return ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""


def pictures(runs: Sequence[Run]) -> dict[str, str]:
    """Return the report's pictures as SVG, with their file names as keys."""
    drawn = {}
    for run in _latest(runs).values():
        placed = [figure for figure in run.figures if figure.conditions and figure.measured]
        rows: dict[str, dict[str, Sequence[float]]] = {}
        units = {figure.name: figure.unit.strip() for figure in placed}
        for figure in placed:
            if "system" in figure.conditions:
                system = str(figure.conditions["system"])
                rows.setdefault(figure.name, {})[system] = figure.measured
        if rows:
            picture, title = _CHARTS[run.family]
            bars = [Bars(name, units[name], each) for name, each in rows.items()]
            drawn[picture] = bar_chart(title, bars)
    for axis, series in _series(runs).items():
        curves = [
            Line(f"{name} ({each[0].unit.strip()})", _points(each, axis))
            for name, each in series.items()
        ]
        drawn[_picture(axis)] = line_chart(f"Growth with the number of {axis}", axis, curves)
    return drawn


def goals(runs: Sequence[Run]) -> str:
    """Return a table of all goals, missed ones first; it shows whether runs on two days agree."""
    rows = [
        (family, figure, _confirmed(family, figure, runs))
        for family, run in _latest(runs).items()
        for figure in [*run.figures, *_growth_figures([run])]
        if figure.goal and not figure.conditions
    ]
    rows.sort(key=lambda row: (row[1].is_met, not row[1].measured))
    met = sum(figure.is_met for _, figure, _ in rows)
    cells = [
        (figure.name, family, figure.goal, figure.seen, _result(figure), how)
        for family, figure, how in rows
    ]
    head = ("figure", "family", "goal", "seen", "result", "confirmed")
    return f"{met} of {len(rows)} goals are met.\n\n{markdown_table(head, cells)}"


def profile(runs: Sequence[Run]) -> str:
    """Return tables of the processor time per add, by stage and by process."""
    latest = _latest(runs)
    stages = [f for f in _figures_of(latest, "storage") if f.name.startswith(_STAGE) and f.measured]
    whole = sum(figure.median for figure in stages)
    rows = [
        (f.name.removeprefix(_STAGE), f"{short(f.median)} µs", f"{f.median / whole:.0%}")
        for f in stages
    ]
    processes = [
        f
        for f in _figures_of(latest, "replication")
        if f.name.startswith("CPU of an add") and not f.conditions
    ]
    text = markdown_table(("stage of an add in a bookie", "processor time", "share"), rows)
    return f"{text}\n{table(processes)}"


def _figures_of(latest: Mapping[str, Run], family: str) -> Sequence[Figure]:
    return latest[family].figures if family in latest else ()


def _threads(run: Run) -> str:
    """Return a table for each kind of process, with a row per stage and a column per system."""
    return "\n".join(_threads_of(run, process) for process in ("client", "bookie"))


def _threads_of(run: Run, process: str) -> str:
    us: dict[str, dict[str, float]] = {}
    for figure in run.figures:
        if figure.conditions["process"] == process:
            kinds = us.setdefault(figure.name, {})
            kinds[str(figure.conditions["kind"])] = figure.median
    systems = sorted({kind for each in us.values() for kind in each}, reverse=True)
    us["in all"] = {kind: sum(each.get(kind, 0.0) for each in us.values()) for kind in systems}
    head = [f"stage of an add in a {process}", *(f"{kind}, µs" for kind in systems)]
    rows = [
        [stage, *(f"{each[kind]:.2f}" if kind in each else "" for kind in systems)]
        for stage, each in us.items()
    ]
    return markdown_table(head, rows)


def _measured_on(run: Run) -> str:
    words = [f"Measured on {run.day}: {run.machine}"]
    words += [each for each in (run.versions, run.remark) if each]
    if run.is_busy:
        words.append("**other programs were at work**, so figures from the clock do not count")
    return "; ".join(words) + ".\n\n"


def _latest(runs: Sequence[Run]) -> dict[str, Run]:
    return {run.family: run for run in runs}


def _result(figure: Figure) -> str:
    if not figure.measured:
        return f"not measured: {figure.note}"
    return "met" if figure.is_met else "**missed**"


def _confirmed(family: str, figure: Figure, runs: Sequence[Run]) -> str:
    """Return whether runs on two days agree on the figure, as text."""
    found = [
        other.median
        for run in runs
        if run.family == family and (figure.is_work or not run.is_busy)
        for other in [*run.figures, *_growth_figures([run])]
        if other.name == figure.name and other.measured and not other.conditions
    ][-2:]
    if not found:
        return "no: measured on a busy machine" if figure.measured else "no"
    if len(found) == 1:
        return "no: one run"
    far = max(found) - min(found) > _AGREE * max(found)
    return (
        f"no: two days differ, {short(found[0])} and {short(found[1])}" if far else "yes: two days"
    )


# Growth

_Series = Mapping[str, Sequence[Figure]]


def _series(runs: Sequence[Run]) -> dict[str, _Series]:
    """Return the series of the latest runs, by axis and by name, with their points in order."""
    found: dict[str, dict[str, list[Figure]]] = {}
    latest = _latest(runs)
    for family in _GROWTH:
        for figure in _figures_of(latest, family):
            for axis in figure.conditions:
                found.setdefault(axis, {}).setdefault(figure.name, []).append(figure)
    return {
        axis: {
            name: sorted(each, key=lambda figure: float(figure.conditions[axis]))
            for name, each in series.items()
        }
        for axis, series in found.items()
    }


def _points(figures: Sequence[Figure], axis: str) -> list[tuple[float, float]]:
    return [(float(figure.conditions[axis]), figure.median) for figure in figures]


def _picture(axis: str) -> str:
    return f"growth-{axis.replace(' ', '-')}.svg"


def _growth_figures(runs: Sequence[Run]) -> list[Figure]:
    """Return, for each series, the cost of a unit of work at its last point, relative to its first
    point with a positive cost.
    """
    return [
        Figure(
            f"{name}: {_count(last[0])} {axis}, times {_count(first[0])}",
            (last[1] / first[1],),
            at_most=_FLAT,
            is_work=each[0].is_work,
        )
        for axis, series in _series(runs).items()
        for name, each in series.items()
        if not each[0].unit.endswith(_NO_UNIT_OF_WORK.get(axis, ()))
        if len(points := [point for point in _points(each, axis) if point[1] > 0]) > 1
        for first, last in [(points[0], points[-1])]
    ]


def _growth(runs: Sequence[Run]) -> str:
    return "\n".join(_growth_of(axis, series) for axis, series in _series(runs).items())


def _growth_of(axis: str, series: _Series) -> str:
    """Return a plot and its table, with one row per series and one column per point."""
    places = sorted({x for each in series.values() for x, _ in _points(each, axis)})
    rows = []
    for name, each in series.items():
        at = dict(_points(each, axis))
        cells = [short(at[x]) if x in at else "" for x in places]
        rows.append([f"{name}, {each[0].unit.strip()}", *cells])
    text = markdown_table([f"by the number of {axis}", *map(_count, places)], rows)
    return f"![Growth with the number of {axis}]({_picture(axis)})\n\n{text}"


def _count(value: float) -> str:
    return f"{value:,.0f}"
