"""The simulated world: the real system under virtual time, where all that can go wrong does.

    from labkit.sim.run import run
    trace = run(Scenario(Cluster(3), (Write(entries=20),), (Crash("b1", when=At(5)),), seed=7))

A run is a value.  The same scenario gives the same trace, event by event, in any process, on any
Python; `trace.at(moment)` goes back in time, `scenario.with_fault(...)` forks it.

What runs is the real code: `labkit.storage`, `bookie`, `client`, `metadata`, `autorecovery` and
`topic` as they run live.  Only what lies behind their ports is made here:

    time      loop.py        an event loop whose clock jumps to the next thing that happens
    chance    decisions.py   every decision has a name and a harmless default
    a node    process.py     one life of a node: a crash drops it, and nothing of it is resumed
    network   links.py       links delay, and by a fault are cut, lose, copy and swap messages
              network.py     connections that behave like TCP's over such links
    metadata  tree.py        a ZooKeeper server's nodes and watches
              metadata.py    its sessions, over the simulated network
    disks     disk.py        a disk in memory that forgets at a crash what was not synced
              disk_work.py   its work takes time and fails; a crash stops it halfway

A world is put together of them:

    moments.py      when: at a time, or when something happens
    workload.py     what clients do: write, read, recover, delete, produce
    faults.py       what goes wrong, each with its fault model
    variants.py     the system with one mistake, by name
    scenario.py     all of that as one value, in JSON and in Python (value.py)
    storm.py        faults drawn from a seed
    nodes.py        what starts, crashes, pauses; a client's node
    bookie_node.py  a bookie's node: disks that outlive its processes
    world.py        boot, workload, epilogue
    epilogue.py     all is mended, and every entry is looked up on every bookie
    trace.py        the run as a value
    run.py          run it

And all orders of the messages of a small scenario, not a sample:

    in_turn.py      the world in which each message arrives when it is chosen
    fingerprint.py  what a program has in memory, as one value
    steered.py      a world that goes where it is steered, and notes what each node does
    learned.py      what each node does with each message: a table
    every_order.py  all states of the world, by that table, and all that it comes to, judged

One rule holds it together: whatever is left to chance is a decision with a name, so a failing run
is a small dictionary, and making it smaller is an edit of that dictionary.  Sets are never gone
through, as their order is not the same in every process; no world reads a clock.

What looks for mistakes:

    drawn.py            whole scenarios drawn from a seed
    search.py           many scenarios in several processes, each judged by `labkit.check`
    shrink.py           a scenario that breaks a promise, made as small as it gets
    long_search.py      hours of seeds, with a state that outlives a stop: `labkit search`
    counterexamples/    for each variant the smallest scenario known that breaks its promise

And one machine alone, without network or time, stopped at every one of its disk operations:

    script.py       what a bookie is told to do, as a value, and the promises that it makes
    crash.py        the crash map: the script stopped everywhere, in every way
    files.py        what a crash left on the disks, in words and bytes
    defects.py      well-known mistakes of a storage, each put into the real code by its name

What is not simulated: the metadata server never crashes and its disk never fails; memory is never
damaged; a node that is wrong is never malicious.  A run samples one order of events: many seeds
prove nothing, they only make a mistake unlikely; `every_order` proves something of small scenarios.

Beyond the standard library this needs protobuf (there is a pure-Python wheel) and google-crc32c;
for a Python in a browser the latter needs a stand-in, and as there are no threads there, `run`
works only outside a running event loop.

Read in the order of the lists.
"""
