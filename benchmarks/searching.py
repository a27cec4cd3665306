"""Measures how quickly a search finds each planted bug, and how long shrinking takes."""

import time

from labkit.system.check import CHECKS
from labkit.worlds.sim.explore.search import search
from labkit.worlds.sim.explore.shrink import shrink
from labkit.worlds.sim.variants.variants import VARIANTS, Variant

_MAX_SEEDS = 5000


def bugs_table() -> str:
    rows = [_row(variant) for variant in VARIANTS.values() if variant.breaks]
    head = "| bug | promise | first seed | found in | shrunk in | faults, decisions left |"
    return "\n".join((head, "| --- " * 6 + "|", *rows)) + "\n"


def _row(variant: Variant) -> str:
    checks = [check for check in CHECKS if check.__name__ == variant.breaks]
    findings = search(
        range(_MAX_SEEDS), variant=variant.name, checks=checks, on_progress=lambda *_: None
    )
    found = f"| {variant.name} | {variant.breaks} "
    if findings.first is None:
        return f"{found}| none of {findings.tried:,} | {findings.seconds:.1f} s | | |"
    began = time.process_time()
    smallest = shrink(findings.first.scenario, variant.breaks)
    took_s = time.process_time() - began
    scenario = smallest.scenario
    return (
        f"{found}| {findings.tried - 1:,} | {findings.seconds:.1f} s"
        f" | {took_s:.1f} s, {smallest.run_count} runs"
        f" | {len(scenario.faults)}, {len(scenario.decisions)} |"
    )
