"""The election of the auditor: the oldest vote wins, and each voter watches the vote before its
own.

    /ledgers/underreplication/auditorelection            names the elected one, for people to read
    /ledgers/underreplication/auditorelection/V_0000000004   ephemeral, sequential: a vote

So an auditor that goes wakes one successor, not all of them.

In BookKeeper: `replication/AuditorElector.java`, `meta/ZkLedgerAuditorManager.java`.
"""

import asyncio
from contextlib import suppress

from labkit.system.autorecovery.formats import decode_vote, encode_vote
from labkit.system.autorecovery.nodes import AutoRecoveryNodes
from labkit.system.metadata.store import (
    ANY_VERSION,
    MetadataStore,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
)

_VOTE = "V_"


async def win_election(store: MetadataStore, bookie_id: str) -> bool:
    """Cast a vote and wait until it is the oldest: from then on this node is the auditor.

    Returns whether the cluster had an auditor before.  Raises `MetadataUnavailableError` when the
    vote is gone, and the session with it.
    """
    election = AutoRecoveryNodes(store.place).election
    with suppress(NodeExistsError):
        await store.create(election, b"")
    vote = encode_vote(bookie_id)
    path = await store.create(f"{election}/{_VOTE}", vote, ephemeral=True, sequential=True)
    mine = path.rpartition("/")[2]
    # Read again each time: the vote before may go because its voter died, not because it served.
    while before := _votes_before(mine, await store.children(election)):
        is_gone = asyncio.Event()
        if await store.exists(f"{election}/{before[-1]}", is_gone.set):
            await is_gone.wait()
    # Each winner writes here once, so a version above 1 is the trace of an earlier one.
    return await store.set(election, vote, ANY_VERSION) > 1


def _votes_before(mine: str, names: list[str]) -> list[str]:
    votes = _in_order(names)
    if mine not in votes:
        raise MetadataUnavailableError(f"the vote {mine} is gone: its session was lost")
    return votes[: votes.index(mine)]


def _in_order(names: list[str]) -> list[str]:
    votes = (name for name in names if name.startswith(_VOTE))
    return sorted(votes, key=lambda name: int(name.removeprefix(_VOTE)))


async def current_auditor(store: MetadataStore) -> str | None:
    """The elected auditor's bookie id, or None if there is no auditor at present."""
    election = AutoRecoveryNodes(store.place).election
    with suppress(NoNodeError):
        for name in _in_order(await store.children(election)):
            # A vote may go while it is being read: the next one wins.
            with suppress(NoNodeError):
                data, _ = await store.get(f"{election}/{name}")
                return decode_vote(data)
    return None
