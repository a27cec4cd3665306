"""Whatever a generated script requests of a bookie, no crash breaks a promise."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labkit.worlds.sim.crash_map.crash_map import VARIANTS, crash_map, random_variants
from labkit.worlds.sim.settings.bookie_script import (
    Add,
    Checkpoint,
    Collect,
    Commit,
    Fence,
    Restart,
    ScriptStep,
    SetExplicitLac,
)

LEDGERS = st.integers(1, 3)


@st.composite
def scripts(draw: st.DrawFn) -> list[ScriptStep]:
    """Draw valid steps: no adds to fenced or deleted ledgers, and no reuse of ledger ids."""
    next_entry = dict.fromkeys((1, 2, 3), 0)
    closed: set[int] = set()
    deleted: set[int] = set()

    def told() -> ScriptStep:
        ledger_id = draw(LEDGERS)
        kind = draw(st.sampled_from(("add", "add", "add", "fence", "lac")))
        if ledger_id in deleted or (kind == "add" and ledger_id in closed):
            return Commit()
        if kind == "fence":
            closed.add(ledger_id)
            return Fence(ledger_id)
        if kind == "lac":
            return SetExplicitLac(ledger_id, next_entry[ledger_id])
        next_entry[ledger_id] += 1
        size = draw(st.sampled_from((1, 40, 427, 700, 1500)))
        return Add(ledger_id, next_entry[ledger_id] - 1, size)

    script: list[ScriptStep] = []
    for _ in range(draw(st.integers(2, 7))):
        script += [*(told() for _ in range(draw(st.integers(1, 3)))), Commit()]
        match draw(st.sampled_from(("", "", "flush", "flush inside", "restart", "collect"))):
            case "flush":
                script.append(Checkpoint())
            case "flush inside":
                script.append(Checkpoint(during=(told(), Commit(), told())))
            case "restart":
                script.append(Restart())
            case "collect":
                gone = draw(st.sampled_from(((), (1,), (2,))))
                deleted.update(gone)
                script += [Checkpoint(), Collect(gone)]
    return script


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 4, suppress_health_check=[HealthCheck.too_slow])
@given(scripts(), st.integers(1, 2), st.integers(1, 2))
def test_no_crash_breaks_a_promise(
    script: list[ScriptStep], journal_count: int, ledger_dir_count: int
) -> None:
    found = crash_map(
        script,
        VARIANTS + random_variants(2),
        journal_count=journal_count,
        ledger_dir_count=ledger_dir_count,
    )
    assert found.is_safe, found


def test_a_padding_record_torn_in_the_middle_of_its_mask_ends_the_journal() -> None:
    found = crash_map([Fence(1), Commit(), Add(2, 0, 427), Commit()])
    assert found.is_safe, found


def test_a_key_record_torn_in_the_middle_of_its_key_creates_no_ledger() -> None:
    found = crash_map([Add(1, 0, 400), Add(2, 0), Commit()])
    assert found.is_safe, found
