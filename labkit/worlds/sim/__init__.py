"""The simulated world: the real system under virtual time, where everything that can fail does.

    from labkit.worlds.sim.run import run
    trace = run(Scenario(Cluster(3), (Write(entries=20),), (Crash("b1", when=At(5)),), seed=7))

A run is a value.  The same scenario gives the same trace, event by event, in any process, on any
Python; `trace.at(moment)` goes back in time, `scenario.with_fault(...)` forks it.

What runs is the real code: `labkit.system.storage`, `bookie`, `client`, `metadata`, `autorecovery`,
`topic`, `broker` and `node` as they run live.  Only what lies behind their ports is simulated:

    machine/    time, chance, processes, network, disks and ZooKeeper
    nodes/      bookies, brokers and clients on such machines

A scenario is one immutable value:

    settings/   the servers and their settings; when something is done
    workload/   what clients do
    scenario/   what goes wrong, and everything together
    variants/   the system with one well-known mistake, by name

And a world runs it:

    world         starts the nodes, runs the workload, then the epilogue
    chosen_order  the same world, in which each message arrives when it is chosen
    epilogue/     repairs all faults and reads everything
    run, trace    runs a scenario; the run as a value

One rule holds it together: every random choice is a decision with a name, so a failing run is a
small dictionary, and shrinking the run means removing its entries.  No code iterates over a set,
as its order differs from process to process; no world reads a clock.

`explore/` draws scenarios, searches them for mistakes and shrinks what it finds.  `crash_map/` runs
one machine alone, without network or time, and stops it at every one of its disk operations.

Four things are not simulated: a crash of the metadata server, a failure of its disk, damaged memory
and a malicious node.  A run tries one order of events, so many runs without a finding make a
mistake unlikely, and prove nothing.

Beyond the standard library this needs only protobuf, which has a pure-Python wheel, so it also runs
in a browser's Python (Pyodide), with the same traces.

Read `machine/loop.py` and `scenario/scenario.py` first.
"""
