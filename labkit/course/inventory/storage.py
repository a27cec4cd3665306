"""Questions about one bookie's storage."""

from random import Random

from labkit.course.inventory.question import Item
from labkit.course.runs.bookie.garbage_runs import collect_garbage
from labkit.course.runs.bookie.one_bookie import OneBookie
from labkit.system.model.errors import BKDigestMatchException, StorageDamagedException
from labkit.system.storage.entry_log import log_name
from labkit.worlds.sim.settings.bookie_script import entry_bytes

_LARGE_LOG = 1 << 20


def who_notices(random: Random) -> Item:
    ledger, entry = random.randrange(3, 90), random.randrange(5)
    bookie = OneBookie()
    bookie.add(*((ledger, number) for number in range(entry + 1)))
    bookie.commit()
    bookie.flush()
    file = bookie.machine.ledgers[0].open(f"current/{log_name(0)}")
    written = entry_bytes(ledger, entry, 20)
    last_at = file.read(0, file.size()).index(written) + len(written) - 1
    file.write(last_at, bytes([written[-1] ^ 1]))
    nobody, right = "Nobody.", "Nobody."
    try:
        bookie.payload(ledger, entry)
    except StorageDamagedException:
        right = "The bookie."
    except BKDigestMatchException:
        right = "The client."
    return Item(
        f"A bookie has stored entry {entry} of ledger {ledger}. Later, its disk changes one byte of"
        " this entry. A client reads the entry. Who notices that the entry is damaged?",
        right,
        {
            "The bookie.": "The bookie checks entries.",
            "First the bookie, then the client.": "Every node checks entries.",
            nobody: "Digests protect the network, not the disk.",
        },
    )


def power_cut(random: Random) -> Item:
    group, groups, more = random.randrange(3, 6), random.randrange(2, 5), random.choice((2, 3))
    more = min(more, group - 1)
    count = group * groups + more
    bookie = OneBookie()
    for entry in range(count):
        bookie.add((5, entry))
        if (entry + 1) % group == 0:
            bookie.commit()
    bookie.crash()
    bookie.restart()
    return Item(
        f"A bookie gets {count} entries, one after the other. It syncs its journal after every"
        f" {group} entries. After the last entry the power fails. How many entries are certain to"
        " be on disk?",
        str(len(bookie.store.entry_ids(5))),
        {
            str(count): "What a program has written is on disk.",
            str(count - 1): "Only the last write is at risk.",
            str(group): "Only the newest synced group is kept.",
        },
    )


def log_files(random: Random) -> Item:
    ledgers, entries = random.sample(range(3, 9), 2)
    bookie = OneBookie(log_size_limit=_LARGE_LOG)
    for entry in range(entries):
        bookie.add(*((ledger, entry) for ledger in range(ledgers)))
        bookie.commit()
    bookie.flush()
    return Item(
        f"{ledgers} ledgers write to the same bookie. Each of them sends {entries} small entries."
        " Then the bookie flushes. How many entry log files does it write?",
        str(len({e.file for e in bookie.trace.events if e.kind == "entry_log.written"})),
        {
            str(ledgers): "Each ledger has a file of its own.",
            str(entries): "Each round of writes begins a new file.",
            str(ledgers * entries): "Each entry has a file of its own.",
        },
    )


def replay(random: Random) -> Item:
    before, after = random.sample(range(3, 10), 2)
    bookie = OneBookie()
    for entry in range(before + after):
        bookie.add((5, entry))
        bookie.commit()
        if entry + 1 == before:
            bookie.flush()
    bookie.crash()
    start = len(bookie.trace.events)
    bookie.restart()
    applied = sum(e.size for e in bookie.trace.events[start:] if e.kind == "journal.replayed")
    return Item(
        f"A bookie stores {before} entries and then completes a checkpoint. It stores and"
        f" acknowledges {after} more entries. Then the power fails. The bookie starts again. How"
        " many entries does it take from its journal?",
        str(applied),
        {
            str(before + after): "The journal is always read from its start.",
            str(before): "The journal repeats what the checkpoint wrote.",
            "0": "An acknowledged entry is already in the entry log.",
        },
    )


def freed(random: Random) -> Item:
    kept, deleted = random.sample(range(3, 15), 2)
    bookie = OneBookie(log_size_limit=_LARGE_LOG)
    ids = [(5, number) for number in range(kept)] + [(6, number) for number in range(deleted)]
    bookie.add(*ids, payload_size=1000)
    bookie.commit()
    bookie.flush()
    gone = len(collect_garbage(bookie, existing={5}))
    return Item(
        f"An entry log contains {kept} kB of ledger 5 and {deleted} kB of ledger 6. All messages in"
        " ledger 6 have been acknowledged, and ledger 6 is deleted. The bookie collects garbage,"
        " but compaction is turned off. How much disk space does it free?",
        f"{gone * (kept + deleted)} kB",
        {
            f"{deleted} kB": "A deleted ledger's bytes are freed at once.",
            f"{kept + deleted} kB": "The whole file is deleted with its first ledger.",
            f"{deleted} kB, but only after a restart": "Space is freed at a restart.",
        },
    )
