# %% [markdown]
# # 14 · How do you find a bug that appears once in a thousand runs?
#
# A protocol is correct when its promises hold in *every* order of events: with late or lost messages,
# nodes that crash between two steps, disks that forget. A test on real machines sees one order, and a
# different one tomorrow. Here the machines, the network, the disks and the clocks are simulated, and
# the code is the real one. All randomness comes from a seed. So a run is a value: you can keep it,
# repeat it, step through it backwards, and change it in one place.
#
# **At the end you can**
# - run a protocol under many seeds, and shrink a failing run as far as possible,
# - find by hand an order of events that loses an acknowledged entry,
# - fix the bug, and say what a search that finds nothing has proved.
#
# **Takes** about 60 minutes. **Needs** Python alone, in a browser tab as well. **After** lesson 08.
#
# **The rule.** *AcknowledgedIsDurable: every entry that was confirmed to its writer is there after
# every recovery and at the end.* The checks know nothing about the code; they read the trace of a run.

# %% tags=["parameters"]
# or "recovery without fencing", "recovery trusts one bookie"
variant = "ack after one bookie"
seed_count = 60  # how many seeds are tried
fault_count = 2  # faults in each of these runs

# %%
from dataclasses import replace

from labkit import Cluster, On, Recover, Scenario, Write, run
from labkit.course.lessons import check, compare, hint, parameters, predict
from labkit.course.runs.timeline import timeline
from labkit.system.check import broken, check_all
from labkit.system.check.promises.durability import AcknowledgedIsDurable
from labkit.worlds.sim.explore.counterexamples import counterexample
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.explore.search import search
from labkit.worlds.sim.explore.shrink import shrink
from labkit.worlds.sim.variants.variants import VARIANTS

parameters("14", globals())

# %% [markdown]
# ## A picture first
#
# A scenario describes the cluster and what its clients do: there are four bookies; `w` writes six
# entries; while the last of them are on their way, `r` opens the ledger with recovery. `storm` adds
# faults drawn from a seed, and the seed also decides which messages are late and which disks are slow.

# %%
scenario = Scenario(
    Cluster(bookies=4),
    (Write(entries=6, every_ms=1.0), Recover(when=On("add.sent", nth=12))),
    limit_s=2.0,
)
stormy = storm(scenario, 3, fault_count, horizon_ms=20)
for fault in stormy.faults:
    print(fault)
print("the same run twice:", run(stormy).digest == run(stormy).digest)

# %%
begun = [e.seq for e in run(stormy).events if e.kind == "recovery.started"]
timeline(stormy, at=begun[0] if begun else None)

# %% [markdown]
# **How to read it.** It opens where `r` begins to recover. At the top: what each client does, and which
# entries each bookie has at this moment. Then a bar that plays the run, with marks where something went
# wrong. At the bottom: all events, and the causes of the chosen one. Step with the arrow keys, play with
# the space bar, choose events in the list. The box *What if* injects a fault just after the chosen
# event: the real code runs again, and the other future is shown beside the first.
#
# At the end of every run all faults are repaired, the power of all bookies fails once, and then every
# entry is looked up on every bookie. So the trace alone shows whether something was lost.

# %% [markdown]
# ## A bug, planted in the real code
#
# A variant is the whole system with one rule changed. This one is named by the parameter:

# %%
print(VARIANTS[variant].name, "-", VARIANTS[variant].story)

# %% [markdown]
# ## Predict
#
# The search runs the variant with the seeds 0, 1, 2, ... Guess how rare the bug is: is the first seed that
# loses an acknowledged entry `"below 10"`, is it `"10 or more"`, or is there `"none"`?

# %%
my_seed = None
# solution
my_seed = "below 10" if variant == "recovery trusts one bookie" else "10 or more"
# end
predict("the first seed that loses an entry", my_seed)

# %%
durable = [AcknowledgedIsDurable]
storms = [storm(scenario, seed, fault_count, horizon_ms=20) for seed in range(seed_count)]


def first_loss(name):
    found = search(storms, variant=name, checks=durable, jobs=1, on_progress=lambda *_: None)
    return found.first


found = first_loss(variant)
if found is None:
    print(f"{variant}: nothing lost with {seed_count} seeds")
else:
    print(f"{variant}: seed {found.scenario.seed}\n{found.reason}")

# %%
size = "none" if found is None else "below 10" if found.scenario.seed < 10 else "10 or more"
compare("the first seed that loses an entry", size)

# %% [markdown]
# ## Smaller
#
# Most of what happens in a failing storm does not matter. Every random decision has a name, such as
# `delay b0>w 0`, and a harmless default. So a run can be written without its seed, as the list of the
# decisions that were not harmless. Removing one does not change the others. `shrink` removes decisions,
# faults, steps and bookies as long as the promise still breaks.

# %%
smallest = None if found is None else shrink(found.scenario, "AcknowledgedIsDurable").scenario
if smallest is not None:
    before, after = run(found.scenario), run(smallest)
    print(f"before: {len(before.events)} events, {len(before.decisions)} decisions")
    print(f"after:  {len(after.events)} events, {len(after.decisions)} decisions")
    for part in (*smallest.workload, *smallest.faults, smallest.decisions):
        print("   ", part if isinstance(part, dict) else repr(part))

# %% [markdown]
# The timeline opens at the event where the promise broke. Beside it is another future of the same run:
# the same cluster, the same decisions, and the protocol without the bug. Look for the first difference,
# marked `≠`, and step on from there.

# %%
if smallest is not None:
    shown = timeline(smallest, other=replace(smallest, variant=""), promise="AcknowledgedIsDurable")
else:
    shown = timeline(replace(storms[0], variant=variant))
shown

# %% [markdown]
# ## Finding nothing proves nothing
#
# Other bugs, the same seeds; the last line is the protocol as it is.

# %%
for name in (
    "recovery without fencing",
    "recovery trusts one bookie",
    "fence not persisted",
    "no fencing on recovery reads",
    "",
):
    loss = first_loss(name)
    words = f"seed {loss.scenario.seed}" if loss else f"0 of {seed_count}"
    print(f"{words:>8}  {name or 'the real thing'}")

# %% [markdown]
# A search that finds nothing says: with these seeds, these faults and these checks nothing broke. Two
# of these bugs do lose data, but only when several rare events coincide. The more events a bug needs,
# the more seeds it takes to find.
#
# labkit's own search (`labkit search`) draws whole scenarios, tries many thousands, and keeps, for each
# bug, the smallest scenario that exposes it. This one exposes a fence that gets no record in the
# journal. Look for what each bookie knows of the fence before and after its restart. labkit's own writer
# would notice that it reached the bookies anew, and read the metadata; this variant has BookKeeper's, which
# counts every acknowledgement.

# %%
smallest = counterexample("fence not persisted")
for part in (*smallest.workload, *smallest.faults, *smallest.decisions):
    print(repr(part))

# %%
timeline(smallest, other=replace(smallest, variant=""), promise="AcknowledgedIsDurable")

# %% [markdown]
# ## Exercise 1: lose an acknowledged entry by hand
#
# You can also find by thinking what a search finds by trying. The variant is *no fencing on recovery
# reads*: recovery fences the ledger where it asks for LastAddConfirmed; its reads of entries do not
# fence. BookKeeper up to 4.13 did the same.
#
# One entry, three bookies, Qw 3, Qa 2. As it stands, nothing is lost. Open the timeline, choose events,
# and try *Lose this message* and *Delay this message* in the box; *Go on from the other future* adds a
# second change to the first. Write down what you found as decisions: the box names the message of an
# event, `w → b0 1`, and the decision is `"delay w>b0 1"` with milliseconds, or `"lose w>b0 1"` with 1.

# %%
base = Scenario(
    Cluster(bookies=3),
    (Write(entries=1), Recover(when=On("add.sent", nth=3))),
    variant="no fencing on recovery reads",
    limit_s=2.0,
)
timeline(base, at=21)

# %%
my_schedule = None  # base.with_decision("delay w>b0 1", 10).with_decision(...)
# solution
my_schedule = (
    base.with_decision("delay w>b0 1", 10)
    .with_decision("delay w>b1 1", 5)
    .with_decision("lose r>b1 1", 1)
)
# end

# %% tags=["exercise"]
check("break_protocol.schedule", my_schedule)

# %% [markdown]
# Your schedule runs twice: with the bug, and with the real protocol, in which it must lose nothing. A
# schedule that is not yet right is shown in the timeline. This one delays the add to two bookies until
# they are fenced:

# %% tags=["refused"]
late = base.with_decision("delay w>b0 1", 10).with_decision("delay w>b1 1", 10)
check("break_protocol.schedule", late, must_pass=False)

# %% [markdown]
# ## Exercise 2: fix it
#
# Another real loss, BookKeeper **#2908**. A bookie looks for an entry and meets one of three things.
# Recovery takes the answers `NO_LEDGER` and `NO_ENTRY` as proof that the bookie never acknowledged the
# entry; `IO_ERROR` proves nothing. What must the bookie answer?
#
# Your function goes into the real bookies. The search then flips bits in the entry logs of two of
# three bookies, lets the writer die, and recovers; and it recovers and reads undamaged ledgers.


# %%
# solution
def answer(met):
    if met == "the entry is here, and its bytes are damaged":
        return "IO_ERROR"
    if met == "nothing of that ledger is here":
        return "NO_LEDGER"
    return "NO_ENTRY"


# learner
# def answer(met):
#     """met: "nothing of that ledger is here", "the ledger is here, the entry is not" or
#     "the entry is here, and its bytes are damaged".  Returns NO_LEDGER, NO_ENTRY or IO_ERROR.
#     """
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("break_protocol.answer", answer)

# %% [markdown]
# This is the bug of #2908: the bookie denies what it cannot read. Look at the event that closes the
# ledger, and at the answers that recovery had received.

# %% tags=["refused"]
check("break_protocol.answer", lambda met: "NO_ENTRY", must_pass=False)

# %% [markdown]
# ## Exercise 3: an invariant sees more than a loss
#
# *ack after one bookie* loses an entry only if a recovery comes at the right moment: with most seeds
# nothing is lost. But the rule is broken in every run. Write a function of a run's events that is true
# for every run of the real protocol, and false for every run of this variant. Here Qa is 2.
#
# An event has `kind`, `node`, `ledger`, `entry` and `peer`. When a writer gets an acknowledgement,
# `kind` is `"add.acked"` and `peer` is the bookie; when an entry is confirmed, it is `"lac.advanced"`.


# %%
# solution
def keeps(events):
    acked = {}
    for event in events:
        key = event.node, event.ledger, event.entry
        if event.kind == "add.acked":
            acked.setdefault(key, set()).add(event.peer)
        if event.kind == "lac.advanced" and len(acked.get(key, ())) < 2:
            return False
    return True


# learner
# def keeps(events):
#     """Whether the run keeps your promise."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("break_protocol.invariant", keeps)

# %% [markdown]
# labkit has such an invariant for every promise, most of them under the name that BookKeeper's TLA+
# specification uses. They find in the first run what a search for losses finds much later:

# %%
one_run = check_all(run(replace(scenario, variant="ack after one bookie")))
print("broken in one run without any fault:", [verdict.name for verdict in broken(one_run)])

# %% [markdown]
# ## What the real system does
#
# | defect | how it was found | what goes wrong | here |
# | --- | --- | --- | --- |
# | **#2614**, fixed in 4.14 | the TLA+ specification, by going through all states of a small model | recovery's reads did not fence: a bookie denies an entry and stores it later; the ledger is closed before an acknowledged entry | *no fencing on recovery reads*, exercise 1 |
# | the specification's second defect, fixed in 4.14 | the same | the bookies of a new last segment report no confirmed entry, so recovery began again at 0, and a failed write-back made a segment before existing ones | the check `OnlyValidFragments` |
# | **#2908** | a real loss of data | a bookie answered "no such entry" for an unreadable entry log, and recovery truncated the ledger | *could not read taken for no such entry*, exercise 2 |
# | **#3952** | a question: one bookie answered well, why is it still an error? | nothing: a reader that accepts fewer answers may miss confirmed entries | *unreachable taken for an answer* |
#
# <details><summary>Why must the real protocol hold under the schedule of exercise 1?</summary>
#
# Otherwise the schedule may be more than any protocol survives, such as the loss of all copies. It
# shows the bug only if the bug alone makes the difference.
# </details>
#
# There are three ways to look for such bugs, and each misses something:
# - **Model checking** (TLA+) goes through all states of a small model, and proves the model correct. The
#   model is not the code, and it is small: two clients, one or two entries.
# - **Deterministic simulation** runs the code, in as many orders as there are seeds. It is a sample:
#   0 of n is not a proof. Where it looks depends on the faults that it draws. FoundationDB was built
#   with it.
# - **Tests on machines** with real faults (Jepsen and others) include what neither model nor simulation
#   has: the real disk, kernel and network. Their failures can rarely be repeated.
#
# All of them check only the promises that were written down.

# %% [markdown]
# ## Questions
#
# <details><summary>Why does removing one decision not change all later ones?</summary>
#
# Each decision is drawn from the seed and the decision's name, not from one stream of random numbers.
# With one stream, one draw fewer would shift every later one, and each smaller run would be a different
# run.
# </details>
#
# <details><summary>May a bookie answer NO_ENTRY for a ledger of which it has nothing?</summary>
#
# For recovery the two answers are the same: proof that this bookie never acknowledged the entry.
# BookKeeper keeps them apart for people who read the answer.
# </details>
#
# <details><summary>A search over 5,000 seeds finds nothing. What do you change: the seeds, the faults,
# or the checks?</summary>
#
# Look first at what the runs did: which events never happened, which faults never struck at a moment
# when they mattered. A search that never delays a fencing read cannot find #2614, with any number of
# seeds. Then ask whether a check would have noticed: plant a bug on purpose, and see it found.
# </details>
#
# **Next:** [15 build on it](15-build-on-it.ipynb): what else can be built on ledgers?
