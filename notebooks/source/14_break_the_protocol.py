# %% [markdown]
# # 14 · How do you find a bug that appears once in a thousand runs?
#
# A protocol is correct if its promises hold for *every* order of events: with late or lost messages, with
# nodes that crash between two steps, and with disks that lose data. A test on real machines sees one order
# today and a different order tomorrow. Here, the machines, the network, the disks and the clocks are
# simulated, but the code is real. All randomness comes from a seed, so you can repeat a run exactly, step
# through it backwards, and change a single decision.
#
# **At the end you can**
# - run a protocol with many seeds, and reduce a failing run to a minimal one,
# - find, by hand, an order of events that loses an acknowledged entry,
# - fix a bug, and say what it means if a search finds nothing.
#
# **Takes** about 60 minutes. **Needs** only Python, and also works in a browser tab. **Prerequisite:** lesson
# 08.
#
# **The rule.** *AcknowledgedIsDurable: every entry that was confirmed to its writer can still be read after
# every recovery and at the end of the run.* The checks know nothing about the code. They only read a run's
# trace.

# %% tags=["parameters"]
# or "recovery without fencing", "recovery trusts one bookie"
variant = "ack after one bookie"
seed_count = 60  # number of seeds to try
fault_count = 2  # faults in each of these runs

# %%
from dataclasses import replace

from labkit.course.lessons import (
    VARIANTS,
    Cluster,
    Game,
    On,
    Recover,
    Scenario,
    Write,
    broken,
    check,
    check_all,
    compare,
    counterexample,
    first_loss,
    hint,
    parameters,
    predict,
    range_of_seed,
    run,
    shrink,
    storm,
    timeline,
)

parameters("14", globals())

# %% [markdown]
# ## A picture first
#
# A scenario describes the cluster and what its clients do. This one has four bookies. `w` writes six
# entries, and while the last of them are in flight, `r` opens the ledger with recovery. `storm` adds random
# faults that it generates from a seed. The seed also decides which messages are late and which disks are
# slow.

# %%
scenario = Scenario(
    Cluster(bookies=4),
    (Write(entries=6, every_ms=1.0), Recover(when=On("add.sent", nth=12))),
    limit_s=2.0,
)
stormy = storm(scenario, 3, fault_count, horizon_ms=20)
print(*stormy.faults, sep="\n")
print("two runs are identical:", run(stormy).digest == run(stormy).digest)

# %%
begun = [e.seq for e in run(stormy).events if e.kind == "recovery.started"]
timeline(stormy, at=begun[0] if begun else None)

# %% [markdown]
# **How to read the timeline.** It opens where `r` starts the recovery. At the top, you see what each client
# is doing and which entries each bookie has at this moment. The bar below it plays the run, and has marks
# where something went wrong. The list at the bottom shows all events and the causes of the selected event.
# Step with the arrow keys, play with the space bar, or select an event in the list. With the *What if* box,
# you inject a fault just after the selected event. The real code runs again, and you see the alternative
# future next to the original one.
#
# Every run ends with an **epilogue**. The simulation repairs all faults, cuts power to all bookies once,
# and then looks up every entry on every bookie. So the trace alone shows whether anything was lost.

# %% [markdown]
# ## A bug in the real code
#
# A variant is the whole system with one rule changed. The parameter `variant` selects this one:

# %%
print(VARIANTS[variant].name, "-", VARIANTS[variant].description)

# %% [markdown]
# ## Predict
#
# The search runs the variant with the seeds 0, 1, 2, ... How rare is the bug? Is the first seed that loses
# an acknowledged entry `"below 10"`, is it `"10 or more"`, or does `"none"` of the seeds lose one?

# %%
my_seed = None
# solution
my_seed = "below 10" if variant == "recovery trusts one bookie" else "10 or more"
# end
predict("the first seed that loses an entry", my_seed)

# %%
storms = [storm(scenario, seed, fault_count, horizon_ms=20) for seed in range(seed_count)]
found = first_loss(storms, variant)
if found is None:
    print(f"{variant}: nothing lost with {seed_count} seeds")
else:
    print(f"{variant}: seed {found.scenario.seed}\n{found.reason}")

# %%
compare("the first seed that loses an entry", range_of_seed(found))

# %% [markdown]
# ## Shrink the run
#
# Most events in a failing storm do not matter. Every random decision has a name, such as `delay b0>w 0`,
# and a harmless default. So you can describe a run without its seed, by listing the decisions that differ
# from their defaults. Removing one of them does not change the others. `shrink` keeps removing decisions,
# faults, steps and bookies as long as the run still breaks the promise.

# %%
smallest = None if found is None else shrink(found.scenario, "AcknowledgedIsDurable").scenario
if smallest is not None:
    before, after = run(found.scenario), run(smallest)
    print(f"before: {len(before.events)} events, {len(before.decisions)} decisions")
    print(f"after:  {len(after.events)} events, {len(after.decisions)} decisions")
    for part in (*smallest.workload, *smallest.faults, smallest.decisions):
        print("   ", part if isinstance(part, dict) else repr(part))

# %% [markdown]
# The timeline opens at the event that broke the promise. Next to it, you see a second run with the same
# cluster and the same decisions but without the bug. Look for the first difference, marked `≠`, and step
# forwards from there.

# %%
if smallest is not None:
    shown = timeline(smallest, other=replace(smallest, variant=""), promise="AcknowledgedIsDurable")
else:
    shown = timeline(replace(storms[0], variant=variant))
shown

# %% [markdown]
# ## Finding nothing proves nothing
#
# Now search for other bugs with the same seeds. The last line shows the result for the real protocol.

# %%
for name in (
    "recovery without fencing",
    "recovery trusts one bookie",
    "fence not persisted",
    "no fencing on recovery reads",
    "",
):
    loss = first_loss(storms, name)
    result = f"seed {loss.scenario.seed}" if loss else f"0 of {seed_count}"
    print(f"{result:>8}  {name or 'the real protocol'}")

# %% [markdown]
# If a search finds nothing, it only means that nothing broke with these seeds, these faults and these
# checks. Two of these bugs do lose data, but only if several rare events coincide. The more events it takes
# to trigger a bug, the more seeds you need to find it.
#
# labkit's own search (`labkit search`) generates whole scenarios, tries many thousands of them, and keeps
# the smallest scenario that exposes each bug. In the scenario below, bookies do not write the fence to the
# journal. Compare what each bookie knows about the fence before and after its restart. labkit's own writer
# would notice that it has reconnected to the bookies, and would read the metadata. In this variant, the
# writer counts every acknowledgement, as BookKeeper's does.

# %%
smallest = counterexample("fence not persisted")
print(*map(repr, (*smallest.workload, *smallest.faults, *smallest.decisions)), sep="\n")

# %%
timeline(smallest, other=replace(smallest, variant=""), promise="AcknowledgedIsDurable")

# %% [markdown]
# A broken promise tells you that a run went wrong, but not when the loss became inevitable. Decide for
# yourself at which event it was too late to save the entry, and then press *When did it become inevitable?*
# labkit tries other futures of the run. Each future is identical to the run up to some moment. After that
# moment, labkit chooses new random message delays, and no more faults occur. The curve below the slider
# shows in how many of these futures the entry is lost.

# %%
timeline(smallest, promise="AcknowledgedIsDurable")

# %% [markdown]
# ## Exercise 1: lose an acknowledged entry by hand
#
# A search finds bugs by trial and error, but you can also find them by reasoning. The variant is *no
# fencing on recovery reads*. In this variant, recovery fences the bookies when it asks for
# LastAddConfirmed, but not when it reads entries. BookKeeper 4.13 and earlier did the same.
#
# The run has one entry and three bookies, with Qw = 3 and Qa = 2. So far, nothing is lost. Open the
# timeline, select events, and try *Lose this message* and *Delay this message* in the box. With *Continue
# with the fork*, you can make a second change on top of the first one. Write your result as a list of
# decisions. The box shows the name of an event's message, for example `w → b0 1`. The decision is then
# `"delay w>b0 1"` with a number of milliseconds, or `"lose w>b0 1"` with the value 1.

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
# Stuck? Call `hint("break_protocol.schedule")`. It gives you three hints, one at a time.
#
# The check runs your schedule twice: with the bug, and with the real protocol, which must not lose
# anything. If your schedule is not right yet, the timeline shows its run. This schedule delays the add to
# two bookies until they have been fenced:

# %% tags=["refused"]
late = base.with_decision("delay w>b0 1", 10).with_decision("delay w>b1 1", 10)
check("break_protocol.schedule", late, must_pass=False)

# %% [markdown]
# ## You are the network
#
# You can also choose the order of all messages yourself. Click the message that should arrive next. This is
# level 5 of a game with ten levels. Level 8 has the bug from exercise 1. With *Protocol: correct*, you play
# against the real protocol, which loses nothing in any order. labkit has tried all 533 states of level 5.

# %%
Game(5)

# %% [markdown]
# ## Exercise 2: fix a bug
#
# BookKeeper **#2908** also lost real data. When a bookie looks for an entry and does not return it, there
# are three possible reasons. Recovery treats the responses `NO_LEDGER` and `NO_ENTRY` as proof that the
# bookie never acknowledged the entry, while `IO_ERROR` proves nothing. How must the bookie respond in each
# case?
#
# The real bookies use your function. The check then flips bits in the entry logs of two of the three
# bookies, lets the writer die, and recovers the ledger. It also recovers and reads undamaged ledgers.


# %%
# solution
def answer(found):
    if found == "the entry is damaged":
        return "IO_ERROR"
    if found == "no such ledger":
        return "NO_LEDGER"
    return "NO_ENTRY"


# learner
# def answer(found):
#     """Return NO_LEDGER, NO_ENTRY or IO_ERROR.
#
#     found: "no such ledger", "no such entry" or "the entry is damaged".
#     """
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("break_protocol.answer", answer)

# %% [markdown]
# This is the bug in #2908: the bookie claims not to have an entry that it cannot read. Look at the event
# that closes the ledger, and at the responses that recovery received before that.

# %% tags=["refused"]
check("break_protocol.answer", lambda found: "NO_ENTRY", must_pass=False)

# %% [markdown]
# ## Exercise 3: an invariant catches more than data loss
#
# *ack after one bookie* loses an entry only if a recovery happens at the wrong moment. With most seeds,
# nothing is lost. But every run breaks the rule. Write a function that takes a run's events and returns
# `True` for every run of the real protocol and `False` for every run of this variant. Here Qa is 2.
#
# An event has `kind`, `node`, `ledger`, `entry` and `peer`. When a writer receives an acknowledgement,
# `kind` is `"add.acked"` and `peer` is the bookie. When an entry is confirmed, `kind` is `"lac.advanced"`.


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
#     """Return whether your invariant holds for these events."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("break_protocol.invariant", keeps)

# %% [markdown]
# labkit has invariants like this one for every promise. Most of them are named after those in BookKeeper's
# TLA+ specification. Within a single run, they find what a search for data loss finds much later:

# %%
one_run = check_all(run(replace(scenario, variant="ack after one bookie")))
print("broken in one run without faults:", [verdict.name for verdict in broken(one_run)])

# %% [markdown]
# ## What the real system does
#
# | bug | how it was found | what goes wrong | here |
# | --- | --- | --- | --- |
# | **#2614**, fixed in 4.14 | by the TLA+ specification, which explores all states of a small model | recovery's reads did not fence, so a bookie could deny an entry and store it later, and the ledger was closed before an acknowledged entry | *no fencing on recovery reads*, exercise 1 |
# | a second bug found by the specification, fixed in 4.14 | in the same way | the bookies of a new last segment reported no confirmed entry, so recovery started over at entry 0, and a failed write-back created a segment before existing ones | the check `OnlyValidFragments` |
# | **#2908** | by losing real data | a bookie responded "no such entry" because it could not read its entry log, and recovery truncated the ledger | *could not read taken for no such entry*, exercise 2 |
# | **#3952** | by a user who asked why a read fails even though one bookie responded successfully | nothing: a reader that accepts fewer responses may miss confirmed entries | *unreachable taken for an answer* |
#
# <details><summary>Why must the real protocol survive the schedule of exercise 1?</summary>
#
# Otherwise the schedule might contain faults that no protocol can survive, such as the loss of all copies.
# The schedule demonstrates the bug only if the bug alone makes the difference.
# </details>
#
# There are three ways to look for such bugs, and each misses something:
# - **Model checking** (TLA+) explores all states of a small model and proves that the model is correct. But the
#   model is not the code, and it is small: two clients, and one or two entries.
# - **Deterministic simulation** runs the real code, in as many orders as you try seeds. This is only a
#   sample, so finding no failures in n runs is not a proof. What a simulation finds depends on the faults
#   that it generates. FoundationDB was developed in this way.
# - **Tests on real machines** with real faults (Jepsen and others) include the real disks, kernels and
#   networks, which models and simulations lack. But their failures can rarely be reproduced.
#
# All of them can check only promises that someone has written down.

# %% [markdown]
# ## Questions
#
# <details><summary>Why does removing one decision not change all later ones?</summary>
#
# Each decision is computed from the seed and the decision's name, rather than taken from a single stream of
# random numbers. With a single stream, removing one decision would shift all later decisions, so every
# smaller run would be completely different.
# </details>
#
# <details><summary>Can a bookie respond NO_ENTRY if it has no entries of the ledger at all?</summary>
#
# Yes. For recovery, the two responses are equivalent, because both prove that this bookie never
# acknowledged the entry. BookKeeper distinguishes them only to help people who read the response. The
# reverse would be wrong, because `NO_LEDGER` says that the bookie has no entries of the ledger at all.
# </details>
#
# <details><summary>A search over 5,000 seeds finds nothing. What do you change: the seeds, the faults,
# or the checks?</summary>
#
# First look at what happened in the runs. Which events never occurred, and which faults never occurred at a
# moment when they mattered? A search that never delays a fencing read cannot find #2614, no matter how many
# seeds it tries. Then ask whether a check would have noticed the bug. Plant a bug on purpose, and see
# whether the search finds it.
# </details>
#
# **Next:** [15 build on it](15-build-on-it.ipynb). What else can you build on ledgers?
