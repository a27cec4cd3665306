"""The end of a run with topics: all their messages are read, in order."""

from collections.abc import Iterable
from functools import partial

from labkit.system.model.errors import LabkitError
from labkit.system.topic.chain.chain_store import read_chain
from labkit.system.topic.messages import decode_messages
from labkit.system.topic.names import full_name, managed_ledger_path, partition_of
from labkit.worlds.sim.epilogue.retry import retried
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.workload.publish import message_note


async def read_topics(node: ClientNode, names: Iterable[str]) -> None:
    """Read each topic once; a topic with an unreadable ledger is skipped, with an event."""
    for topic in dict.fromkeys(map(full_name, names)):
        try:
            entry_count = await _read(node, topic)
        except LabkitError as error:
            node.recorder.record("topic.unread", note=f"{topic}: {type(error).__name__}: {error}")
        else:
            node.recorder.record("topic.read", size=entry_count, note=topic)


async def _read(node: ClientNode, topic: str) -> int:
    chain, _ = await retried(partial(read_chain, node.client, managed_ledger_path(topic)))
    count = 0
    for link in chain:
        reader = await retried(partial(node.client.open_ledger, link.ledger_id))
        if reader.last_add_confirmed < 0:
            continue
        for entry in await reader.read_entries(0, reader.last_add_confirmed):
            count += 1
            place = reader.ledger_id, entry.entry_id
            for message in decode_messages(entry.payload, *place, partition_of(topic)):
                note = message_note(topic, message.producer_name, message.sequence_id)
                node.recorder.record("message.found", *place, note=note)
                node.world.answers.message_read(topic, message)
    return count
