"""Formats the report of a long search as text for the terminal and as a table for a web page."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.functions import expr

from benchmarks.measure import markdown_table
from labkit.views.spark.search import record
from labkit.worlds.sim.explore.code_version import code_version
from labkit.worlds.sim.explore.situations.targeting import RARE, Aim
from labkit.worlds.sim.scenario.scenario import from_json
from tools.search.branches import Branches, Share, shares

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

_RAREST_SHOWN = 12
_SEEDS_SHOWN = 10


def report(variant: str, rows: "DataFrame", branches: Branches) -> str:
    present = _of_present_code(rows)
    parts = (
        (f"Variant: {variant or 'none'}",),
        _counts(rows),
        _broken_promises(present),
        _situations(_aim(present)),
        _branches(branches),
    )
    return "\n".join(line for lines in parts for line in lines)


def published(rows: "DataFrame", branches: Branches) -> str:
    """Return a Markdown table of the search, with one row for each version of the code."""
    head = ("code of the protocol", "seeds", "aimed runs", "processor hours", "broken promises")
    counts = [
        (
            each.code,
            f"{each.seeds:,}",
            f"{each.aimed:,}",
            f"{each.hours:.2f}",
            ", ".join(each.broken) or "none",
        )
        for each in _counts_by_code(rows)
    ]
    taken, total = _totals(shares(branches.taken))
    aim = _aim(_of_present_code(rows))
    never, situations = aim.never_reached(), len(aim.reached)
    reached = (
        f"The current code is {code_version()}. Its runs reached {situations - len(never)} of"
        f" {situations} situations and took {taken:,} of {total:,} branches of the protocol's"
        f" packages (measured in {branches.runs:,} runs). Never reached:"
        f" {', '.join(never) or 'none'}."
    )
    return f"These searches ran on Spark:\n\n{markdown_table(head, counts)}\n{reached}\n"


def first_broken(rows: "DataFrame") -> dict[str, str]:
    """For each promise that the current code broke, return the first scenario that broke the
    promise, as JSON.
    """
    first = expr("min_by(scenario, struct(round, seed)) as scenario")
    found = _broken(_of_present_code(rows)).groupBy("promise").agg(first)
    return {row["promise"]: row["scenario"] for row in found.orderBy("promise").collect()}


def _of_present_code(rows: "DataFrame") -> "DataFrame":
    return rows.where(rows["code"] == code_version())


def _broken(rows: "DataFrame") -> "DataFrame":
    """Return a row for each promise that a run broke."""
    each = rows.selectExpr(
        "code", "seed", "scenario", "round", "inline(arrays_zip(broken, reasons))"
    )
    return each.withColumnsRenamed({"broken": "promise", "reasons": "reason"})


def _aim(rows: "DataFrame") -> Aim:
    aim = Aim()
    record(aim, rows)
    return aim


def _counts_by_code(rows: "DataFrame") -> list["Row"]:
    """Return a row for each version of the code, in the order in which they were searched.

    `hours` is processor time, and `broken` lists the promises that the version broke.
    """
    counts = rows.groupBy("code").agg(
        expr("count(seed) as seeds"),
        expr("count_if(seed is null) as aimed"),
        expr("sum(seconds) / 3600 as hours"),
        expr("array_sort(array_distinct(flatten(collect_list(broken)))) as broken"),
        expr("min(round) as began"),
    )
    return counts.orderBy("began").collect()


def _counts(rows: "DataFrame") -> Iterator[str]:
    for each in reversed(_counts_by_code(rows)):
        age = "Code" if each.code == code_version() else "Earlier code"
        runs = f"{each.seeds:,} seeds and {each.aimed:,} aimed runs"
        yield f"{age} {each.code}: {runs} in {each.hours:.3f} processor hours"


def _broken_promises(rows: "DataFrame") -> Iterator[str]:
    found = (
        _broken(rows)
        .groupBy("promise")
        .agg(
            expr("count(*) as times"),
            expr(f"slice(array_sort(collect_list(seed)), 1, {_SEEDS_SHOWN}) as seeds"),
            expr("min_by(reason, struct(round, seed)) as reason"),
            expr("min_by(scenario, struct(round, seed)) as scenario"),
        )
    )
    promises = found.orderBy("promise").collect()
    yield f"Promises that broke: {len(promises) or 'none'}"
    for each in promises:
        seeds = ", ".join(map(str, each["seeds"])) or "none (only in aimed runs)"
        yield f"\n{each['promise']}: {each['times']} times, first seeds: {seeds}"
        yield each["reason"]
        yield repr(from_json(each["scenario"]))


def _situations(aim: Aim) -> Iterator[str]:
    reached, never = aim.reached, aim.never_reached()
    count, total = len(reached) - len(never), len(reached)
    yield f"\nSituations of the protocol reached: {count} of {total} ({count / total:.0%})"
    if never:
        yield "Never reached:"
        yield from (f"  {name}" for name in never)
    rare = [name for name in reached if name not in never and aim.is_rare(name)]
    rare.sort(key=lambda name: reached[name].by_seeds + reached[name].by_aimed)
    yield f"Rare, in at most {RARE:.0%} of the seeds: {len(rare)}" + (
        f"; the {_RAREST_SHOWN} rarest:" if len(rare) > _RAREST_SHOWN else ":" if rare else ""
    )
    for name in rare[:_RAREST_SHOWN]:
        each = reached[name]
        first = "" if each.first_seed is None else f" (first: {each.first_seed:,})"
        yield f"  {name}: seeds {each.by_seeds:,}{first}, aimed runs {each.by_aimed:,}"


def _branches(branches: Branches) -> Iterator[str]:
    if not branches.runs:
        yield "\nBranches of the code: not measured yet"
        return
    packages = shares(branches.taken)
    taken, total = _totals(packages)
    yield f"\nBranches of the code taken in {branches.runs:,} measured runs:"
    yield f"  {taken:,} of {total:,} ({taken / total:.0%})"
    for each in packages:
        yield f"  {each.package}: {each.taken:,} of {each.total:,} ({each.taken / each.total:.0%})"


def _totals(packages: list[Share]) -> tuple[int, int]:
    return sum(each.taken for each in packages), sum(each.total for each in packages)
