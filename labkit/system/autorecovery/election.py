"""Elects the auditor: the oldest vote wins, and each voter watches the vote just before its own.

    /ledgers/underreplication/auditorelection            names the auditor, in readable form
    /ledgers/underreplication/auditorelection/V_0000000004   ephemeral, sequential: a vote

When an auditor leaves, only its successor is notified, not every voter.

In BookKeeper: `replication/AuditorElector.java`, `meta/ZkLedgerAuditorManager.java`.
"""

import asyncio
import re
from contextlib import suppress

from labkit.system.autorecovery.formats import decode_vote, encode_vote
from labkit.system.autorecovery.paths import AutoRecoveryPaths
from labkit.system.metadata.store import (
    ANY_VERSION,
    MetadataStore,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
)

_PREFIX = "V_"
_VOTE = re.compile(rf"{_PREFIX}-?\d{{9,10}}")
"""The name of a vote; its number becomes negative after 2147483647 votes."""


async def win_election(store: MetadataStore, bookie_id: str) -> bool:
    """Cast a vote and wait until it is the oldest, which makes this instance the auditor.

    Return whether the cluster has had an earlier auditor. Raises `MetadataUnavailableError` if the
    vote was deleted because its session was lost.
    """
    election = AutoRecoveryPaths(store.location).election
    with suppress(NodeExistsError):
        await store.create(election, b"")
    vote = encode_vote(bookie_id)
    path = await store.create(f"{election}/{_PREFIX}", vote, ephemeral=True, sequential=True)
    mine = path.rpartition("/")[2]
    # The preceding vote may be deleted before it is the oldest one, so check again.
    while (votes := await _votes(store, election))[:1] != [mine]:
        if mine not in votes:
            raise MetadataUnavailableError(f"the vote {mine} was deleted: its session was lost")
        is_gone = asyncio.Event()
        if await store.exists(f"{election}/{votes[votes.index(mine) - 1]}", is_gone.set):
            await is_gone.wait()
    # Each winner writes to this node once, so its version is the number of winners so far.
    return await store.set(election, vote, ANY_VERSION) > 1


async def _votes(store: MetadataStore, election: str) -> list[str]:
    """Return the names of the votes, oldest first."""
    votes = filter(_VOTE.fullmatch, await store.children(election))
    return sorted(votes, key=lambda name: int(name.removeprefix(_PREFIX)))


async def current_auditor(store: MetadataStore) -> str | None:
    election = AutoRecoveryPaths(store.location).election
    with suppress(NoNodeError):
        for name in await _votes(store, election):
            with suppress(NoNodeError):  # The vote has just been deleted: try the next one.
                data, _ = await store.get(f"{election}/{name}")
                return decode_vote(data)
    return None
