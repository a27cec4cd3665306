"""A bookie withstands hostile peers; `python -m tests.chaos --hostile` measures all of them."""

from collections.abc import Sequence

import pytest

from tests.chaos import costs
from tests.chaos.hostile import PEERS, half_frames, large_reads_on_many
from tests.repeat import repeated

MOST_MIB = 60 + 4 * 64 + 2 * 64 + 128
"""The bound that docs/security.md states for the default settings."""
WORST = [half_frames.__name__, large_reads_on_many.__name__]
OTHERS = [peer.__name__ for peer in PEERS if peer.__name__ not in WORST]


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize("names", repeated([WORST, OTHERS]), ids=["worst", "others"])
async def test_no_hostile_peer_takes_more_memory_than_the_bound_or_fails_anothers_adds(
    names: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "RECOVERY_S", 0.5)
    suffered = await costs.measure(lambda _: None, names, attack_s=3.0)
    assert len(suffered) == len(names)
    assert [cost.row() for cost in suffered if cost.worst > MOST_MIB or not cost.adds] == []
