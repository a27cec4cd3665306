"""Questions about a ledger's copies on several bookies: quorums, fencing, recovery and repair."""

from random import Random

from labkit.course.inventory.question import Item
from labkit.course.runs.quorum_runs import failures_survived
from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.client.striping import write_set
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash, Delay, Pause, SlowDisk
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.workload.steps import Read, Recover, Write


def which_bookies(random: Random) -> Item:
    size, quorum = random.choice(((4, 2), (5, 2), (5, 3), (6, 3)))
    entry = size + random.randrange(1, size)
    return Item(
        f"A ledger uses {size} bookies, b0 to b{size - 1}, and writes each entry to {quorum} of"
        f" them. Which bookies store entry {entry}?",
        _names(write_set(entry, size, quorum)),
        {
            _names(range(quorum)): "All entries of a ledger are on the same bookies.",
            _names(range(size)): "Every bookie of the ensemble stores every entry.",
            "Nobody can say without a list of the entry's bookies.": (
                "The bookies of an entry are stored in a list."
            ),
        },
    )


def _names(indices: object) -> str:
    assert isinstance(indices, tuple | range)
    return ", ".join(f"b{index}" for index in sorted(indices))


def failures(random: Random) -> Item:
    size, quorum, acks = random.choice(((9, 4, 3), (11, 4, 3), (9, 6, 4), (13, 6, 4)))
    return Item(
        f"A ledger uses {size} bookies. Each entry is written to {quorum} of them, and it is"
        f" acknowledged when {acks} have stored it. How many bookies, no matter which ones, may"
        " fail at the same time without any acknowledged entry being lost?",
        str(failures_survived(size, quorum, acks)),
        {
            str(quorum - 1): "An acknowledged entry has all of its copies.",
            str(quorum - acks): "As many as an acknowledgement does not wait for.",
            str((size - 1) // 2): "A majority must survive.",
        },
    )


def waiting(random: Random) -> Item:
    slow, slow_ms = random.choice(("b0", "b1", "b2")), random.choice((80, 100, 200))
    trace = run(Scenario(Cluster(3), (Write(entries=1),), (SlowDisk(slow, slow_ms),)))
    began = next(e.time_us for e in trace.events if e.kind == "add.pushed")
    done = next(e.time_us for e in trace.events if e.kind == "lac.advanced")
    right = "A few" if (done - began) / 1000 < slow_ms / 4 else f"About {slow_ms}"
    return Item(
        "An entry is written to three bookies, and two acknowledgements are enough. The disk of"
        f" {slow} needs {slow_ms} ms for each write, the other disks about 1 ms. After how many"
        " milliseconds is the entry acknowledged to the writer?",
        right,
        {
            f"About {slow_ms}": "An add waits for all copies.",
            f"About {slow_ms // 3}": "An add takes the average time of its bookies.",
            f"About {2 * slow_ms}": "Bookies store an entry one after the other.",
        },
    )


def readable(random: Random) -> Item:
    size, slow = random.choice(((3, 2), (4, 3), (5, 3), (5, 4)))
    count = random.choice((2, 3)) * size + slow + 1
    write = Write(entries=count, ensemble=size, write_quorum=2, ack_quorum=2, window=count)
    trace = run(Scenario(Cluster(size), (write,), (SlowDisk(f"b{slow}", 500),)))
    until = next(e.time_us for e in trace.events if e.kind == "add.pushed") + 400_000
    confirmed = [e.entry for e in trace.events if e.kind == "lac.advanced" and e.time_us < until]
    complete = [entry for entry in range(count) if slow not in write_set(entry, size, 2)]
    return Item(
        f"A ledger uses {size} bookies. Entry 0 is stored on b0 and b1, entry 1 on b1 and b2, and"
        f" so on; after b{size - 1} comes b0 again. An add needs both acknowledgements. The writer"
        f" has sent entries 0 to {count - 1}. Only b{slow} has not acknowledged anything yet."
        " Which is the last entry that a reader may see?",
        str(max(confirmed, default=-1)),
        {
            str(max(complete)): "An entry can be read as soon as it has its acknowledgements.",
            str(count - 1): "What is stored can be read.",
            "No entry": "One slow bookie stops all readers.",
        },
    )


def new_ensemble(random: Random) -> Item:
    dies_after, window = random.randrange(3, 7), random.choice((3, 4))
    write = Write(entries=12, window=window, write_quorum=2)
    trace = run(Scenario(Cluster(5), (write,), (Crash("b1", when=On("lac.advanced", dies_after)),)))
    end = next(e.seq for e in trace.events if e.kind == "ensemble.changing")
    before = [e for e in trace.events if e.seq < end and e.node == "w"]
    confirmed = max(e.entry for e in before if e.kind == "lac.advanced")
    sent = max(e.entry for e in before if e.kind == "add.pushed")
    right = [e.entry for e in trace.events if e.kind == "ensemble.set"][-1]
    return Item(
        f"A writer has sent entries 0 to {sent}. Entries 0 to {confirmed} are confirmed. Now one of"
        " its bookies fails, and the writer replaces it. What is the first entry that belongs to"
        " the new ensemble?",
        f"Entry {right}",
        {
            "Entry 0": "The new bookie must have every entry of the ledger.",
            f"Entry {confirmed}": "The last confirmed entry must be sent again.",
            f"Entry {sent + 1}": "The change concerns only entries that have not been sent.",
        },
    )


def copies_left(random: Random) -> Item:
    quorum, dies_after = random.choice((2, 3, 4)), random.randrange(3, 7)
    write = Write(entries=10, ensemble=quorum, write_quorum=quorum)
    dies = Crash("b1", when=On("lac.advanced", dies_after))
    trace = run(Scenario(Cluster(quorum + 2), (write,), (dies,)))
    stored = {e.node for e in trace.events if e.kind == "journal.synced" and e.entry == 0}
    return Item(
        f"A ledger has {quorum} copies of each entry. After entry {dies_after - 1} has been"
        " confirmed, one of its bookies is destroyed. The writer replaces it with another bookie"
        " and writes the rest of the ledger. Autorecovery is turned off. How many copies of entry 0"
        " are left?",
        str(len(stored - {"b1"})),
        {
            str(quorum): "The writer copies old entries to the new bookie at once.",
            str(quorum + 1): "The copy on the destroyed bookie still counts.",
            "0": "Without one of its bookies, an old entry cannot be read.",
        },
    )


def old_writer(random: Random) -> Item:
    paused_after, entries = random.choice((3, 4, 5)), random.randrange(8, 12)
    steps = Write(entries=entries, window=2, every_ms=0.5), Recover(when=On("node.paused"))
    paused = Pause("w", 20.0, On("lac.advanced", paused_after))
    trace = run(Scenario(Cluster(3), steps, (paused,)))
    is_rejected = any(e.kind == "add.failed" and e.node == "w" for e in trace.events)
    rejected, stored = "It fails: the bookies reject it.", "It succeeds: the ledger grows."
    return Item(
        f"A writer is paused after entry {paused_after - 1} has been confirmed. Meanwhile, another"
        " client opens the ledger with recovery and closes it. The writer resumes and does not know"
        " what has happened. What happens to its next add?",
        rejected if is_rejected else stored,
        {
            stored: "A bookie stores whatever a writer sends.",
            "The writer does not send it, because its lease is over.": "A lease stops old writers.",
            "It waits until the other client has finished.": "A lock makes writers wait.",
        },
    )


def unconfirmed(random: Random) -> Item:
    last = random.randrange(3, 9)
    late = [Delay(f"b{i}", "w", 500, when=On("lac.advanced", last)) for i in range(3)]
    dies = Crash("w", when=At(100))
    steps = Write(entries=last + 1, window=1, close=False), Recover(when=At(200))
    trace = run(Scenario(Cluster(3), steps, (*late, dies)))
    end = next(e.entry for e in trace.events if e.kind == "ledger.closed")
    kept, dropped = "Yes, recovery keeps it.", "No, recovery leaves it out."
    return Item(
        f"A writer sends entry {last}. All three bookies of the ledger store it, but the writer"
        " dies before it receives an acknowledgement. Another client opens the ledger with"
        f" recovery, and all bookies respond. Does the closed ledger contain entry {last}?",
        kept if end >= last else dropped,
        {
            dropped: "Recovery ends the ledger at LastAddConfirmed.",
            "Only if the first writer comes back.": "Only its writer can end a ledger.",
            "Some readers will see it, and others will not.": "Each reader decides on its own.",
        },
    )


def silent_bookie(random: Random) -> Item:
    entries, down_s = random.randrange(9, 16), random.choice((3, 4, 5))
    cluster = Cluster(4, autorecovery=AutoRecoveryConfig(lost_bookie_recovery_delay_s=10))
    # The reader keeps the run from ending before autorecovery could have copied something.
    steps = Write(entries=entries, write_quorum=2), Read(polls=60, poll_ms=1000, when=At(2000))
    silent = Crash("b1", down_ms=down_s * 1000, when=At(1000))
    trace = run(Scenario(cluster, steps, (silent,), limit_s=90))
    held = sum(1 in write_set(entry, 3, 2) for entry in range(entries))
    return Item(
        f"A ledger has {entries} entries on three bookies, with two copies of each entry."
        " Autorecovery considers a bookie lost when it has been silent for 10 seconds. One bookie"
        f" is silent for {down_s} seconds and then responds again. How many entries are copied?",
        str(sum(e.kind == "entry.copied" for e in trace.events)),
        {
            str(held): "A silent bookie's entries are copied at once.",
            str(entries): "The whole ledger is copied.",
            str(2 * entries): "Every copy of the ledger is made again.",
        },
    )
