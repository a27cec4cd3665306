"""Formats the report of a long search as text for the terminal and as a table for a web page."""

from collections.abc import Iterator

from tools.search.branches import Share, shares
from tools.search.search_state import Count, SearchState
from tools.search.targeting import RARE

_RAREST_SHOWN = 12
_SEEDS_SHOWN = 10


def report(state: SearchState) -> str:
    parts = (
        _counts(state),
        _broken_promises(state.counts[-1]),
        _situations(state),
        _branches(state),
    )
    return "\n".join(line for lines in parts for line in lines)


def published(state: SearchState) -> str:
    """Return a Markdown table of the search, with one row for each version of the code."""
    rows = [
        "| code of the protocol | seeds | aimed runs | processor hours | broken promises |",
        "| --- | --- | --- | --- | --- |",
    ]
    rows += [
        f"| {each.code.name} ({each.code.digest}) | {each.seeds:,} | {each.aimed:,}"
        f" | {each.processor_s / 3600:.2f} | {', '.join(each.broken) or 'none'} |"
        for each in state.counts
    ]
    taken, total = _totals(shares(state.taken))
    never, situations = state.aim.never_reached(), len(state.aim.reached)
    reached = (
        "The last row is the current version of the code. With its protocol code, and the current"
        f" or earlier checks, the search ran {_run_counts(*state.same_protocol)}. They reached"
        f" {situations - len(never)} of {situations} situations and took {taken:,} of {total:,}"
        f" branches of the protocol's packages (measured in {state.watched:,} runs)."
        f" Never reached: {', '.join(never) or 'none'}."
    )
    return "\n".join((*rows, "", reached, ""))


def _counts(state: SearchState) -> Iterator[str]:
    yield f"Variant: {state.variant or 'none'}"
    present, *earlier = reversed(state.counts)
    yield f"Code: {present.code.name} ({present.code.digest})"
    yield f"{_run_counts(present)} with this code; the next seed is {state.next_seed:,}"
    for each in earlier:
        yield f"Earlier code, {each.code.name} ({each.code.digest}): {_run_counts(each)}"


def _run_counts(*counts: Count) -> str:
    seeds, aimed = sum(each.seeds for each in counts), sum(each.aimed for each in counts)
    hours = sum(each.processor_s for each in counts) / 3600
    return f"{seeds:,} seeds and {aimed:,} aimed runs in {hours:.3f} processor hours"


def _broken_promises(count: Count) -> Iterator[str]:
    yield f"Promises that broke: {len(count.broken) or 'none'}"
    for promise, each in count.broken.items():
        seeds = ", ".join(map(str, each.seeds[:_SEEDS_SHOWN])) or "none (only in aimed runs)"
        yield f"\n{promise}: {each.times} times, first seeds: {seeds}"
        yield each.reason
        yield repr(each.scenario)


def _situations(state: SearchState) -> Iterator[str]:
    reached, never = state.aim.reached, state.aim.never_reached()
    count, total = len(reached) - len(never), len(reached)
    yield f"\nSituations of the protocol reached: {count} of {total} ({count / total:.0%})"
    if never:
        yield "Never reached:"
        yield from (f"  {name}" for name in never)
    rare = [name for name in reached if name not in never and state.aim.is_rare(name)]
    rare.sort(key=lambda name: reached[name].by_seeds + reached[name].by_aimed)
    yield f"Rare, in at most {RARE:.0%} of the seeds: {len(rare)}" + (
        f"; the {_RAREST_SHOWN} rarest:" if len(rare) > _RAREST_SHOWN else ":" if rare else ""
    )
    for name in rare[:_RAREST_SHOWN]:
        each = reached[name]
        first = "" if each.first_seed is None else f" (first: {each.first_seed:,})"
        yield f"  {name}: seeds {each.by_seeds:,}{first}, aimed runs {each.by_aimed:,}"


def _branches(state: SearchState) -> Iterator[str]:
    if not state.watched:
        yield "\nBranches of the code: not measured yet"
        return
    packages = shares(state.taken)
    taken, total = _totals(packages)
    yield f"\nBranches of the code taken in {state.watched:,} measured runs:"
    yield f"  {taken:,} of {total:,} ({taken / total:.0%})"
    for each in packages:
        yield f"  {each.package}: {each.taken:,} of {each.total:,} ({each.taken / each.total:.0%})"


def _totals(packages: list[Share]) -> tuple[int, int]:
    return sum(each.taken for each in packages), sum(each.total for each in packages)
