"""Each bug is found by one of the first 5,000 random scenarios."""

import pytest

from labkit.worlds.sim.explore.search import search
from labkit.worlds.sim.variants.storage_variants import DEFECTS
from labkit.worlds.sim.variants.variants import VARIANTS
from tests.worlds.sim.runs import checks_of

OF_STORAGE = {
    "mark persisted before the flush": 41,
    "mark taken after the flush": 30,
    "journals removed before the mark": 367,
    "mark of one directory": 131,
    "ack before sync": 12,
    "wrong file synced at a roll": 641,
    "index before log, trusted": 197,
    "fence not flushed": 498,
    "log removed before its copies are synced": 23,
}
OF_THE_PROTOCOL = {
    "ack after one bookie": 12,
    "LAC out of order": 184,
    "ensemble change from the wrong entry": 39,
    "recovery without fencing": 0,
    "no fencing on recovery reads": 1558,
    "fence not persisted": 2275,
    "acks of emptied bookies counted": 117,
    "deleted ledger comes back": 0,
    "list of ledgers without a sync": 24,
    "recovery trusts one bookie": 32,
    "recovery publishes ensembles early": 2820,
    "could not read taken for no such entry": 274,
    "unreachable taken for an answer": 103,
    "auditor without delay": 55,
    "metadata before the copy": 2,
    "silence taken for absence": 81,
    "lost sessions noticed late": 1837,
    "cookie not checked": 668,
    "sends after a failed one": 153,
    "pushed taken for stored": 1,
    "pushed again behind later ones": 128,
    "list of ledgers written blindly": 65,
    "takeover without recovery": 210,
    "marks not rebuilt": 27,
    "receipt of the newest entry": 1,
    "ledger ids in blocks": 445,
}
SEEDS = [
    *OF_STORAGE.items(),
    *(pytest.param(*each, marks=pytest.mark.slow) for each in OF_THE_PROTOCOL.items()),
]


def test_every_mistake_has_a_seed_below_5000() -> None:
    assert set(OF_STORAGE) == {name for name in DEFECTS if VARIANTS[name].breaks}
    seeds = OF_STORAGE | OF_THE_PROTOCOL
    assert set(seeds) == {each.name for each in VARIANTS.values() if each.breaks}
    assert max(seeds.values()) < 5000


@pytest.mark.sampled
@pytest.mark.parametrize(("variant", "seed"), SEEDS)
def test_a_mistake_breaks_its_promise_at_its_seed_and_nothing_breaks_without_it(
    variant: str, seed: int
) -> None:
    promise = checks_of(VARIANTS[variant].breaks)
    assert search([seed], variant=variant, checks=promise, jobs=1).first is not None
    assert search([seed], jobs=1).found == ()
