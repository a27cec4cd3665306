"""The simulated world: runs the real system in virtual time, and injects failures into its nodes,
disks and network.

    from labkit.worlds.sim.run import run
    trace = run(Scenario(Cluster(3), (Write(entries=20),), (Crash("b1", when=At(5)),), seed=7))

Every run can be reproduced: the same scenario produces the same trace, event by event, in any
process and on any Python version. `trace.at(...)` returns the state of the cluster at any moment,
and running `scenario.with_fault(...)` repeats the run exactly up to the new fault.

The simulated world runs the real code without changes: `labkit.system.storage`, `bookie`, `client`,
`metadata`, `autorecovery`, `topic`, `broker` and `node`. Only the implementations of the ports are
simulated:

    machine/    time, randomness, processes, network, disks and ZooKeeper
    nodes/      bookies, brokers and clients on simulated machines

A scenario is a single immutable value that consists of

    settings/   the servers and their settings, and the triggers that start steps and faults
    workload/   what the clients do
    scenario/   the faults, and the scenario that combines everything
    variants/   versions of the system that each contain one well-known bug, by name

A world runs a scenario:

    world         starts the nodes, runs the workload, then the epilogue
    chosen_order  a world in which a decision picks the next message to arrive
    epilogue/     repairs all faults and reads everything
    run, trace    runs a scenario and returns the run as an object
    futures       alternative continuations of a run: when did a broken promise become inevitable?
    future_world  a world that repeats a run up to some moment, and then makes new decisions
    run_link      describes a run, and a moment in that run, in a link that anyone can open

The whole package follows one rule: every random choice of a run is a named decision. A failing run
is therefore described by a small dictionary of decisions, and shrinking the run means removing
entries from this dictionary. No world reads the system clock, or depends on the iteration order of
a set of strings (which differs between processes).

`play/` lets a player choose each move: it runs a scenario up to the player's last move, and lists
the messages in flight. `explore/` generates scenarios, searches them for bugs and shrinks the
failing ones. `crash_map/` runs a single machine, without network or time, and stops it before each
of its disk operations.

Four things are not simulated: a crash of the metadata server, a failure of its disk, corrupt
memory, and malicious nodes. Each run tries only one order of events, so even many successful runs
do not prove the absence of bugs.

Apart from the standard library, this package needs only protobuf, which has a pure-Python wheel.
The simulated world therefore also runs in the browser (Pyodide) and produces the same traces there.

Start reading with `machine/loop.py` and `scenario/scenario.py`.
"""
