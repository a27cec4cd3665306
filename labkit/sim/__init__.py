"""The simulated world: the real system under virtual time, where all that can go wrong does.

    from labkit.sim.run import run
    trace = run(Scenario(Cluster(3), (Write(entries=20),), (Crash("b1", when=At(5)),), seed=7))

A run is a value.  The same scenario gives the same trace, event by event, in any process, on any
Python; `trace.at(moment)` goes back in time, `scenario.with_fault(...)` forks it.

What runs is the real code: `labkit.storage`, `bookie`, `client`, `metadata`, `autorecovery`,
`topic`, `pulsar` and `server` as they run live.  Only what lies behind their ports is made here:

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
    nodes.py        what starts, crashes, pauses; a client's node
    bookie_node.py  a bookie's node: disks that outlive its processes
    broker_node.py  a broker's node: what it knows lies in the cluster
    publish.py      a producer of Pulsar's, which sends again what has no receipt
    world.py        boot, workload, epilogue
    in_turn.py      the same, but each message arrives when it is chosen
    epilogue.py     all is mended, and every entry is looked up on every bookie
    topic_reading.py  and every message in its topic
    trace.py        the run as a value
    run.py          run it

One rule holds it together: whatever is left to chance is a decision with a name, so a failing run
is a small dictionary, and making it smaller is an edit of that dictionary.  Sets are never gone
through, as their order is not the same in every process; no world reads a clock.

What draws scenarios, looks for mistakes in them and makes them small is the package `explore`.

And one machine alone, without network or time, stopped at every one of its disk operations:

    script.py       what a bookie is told to do, as a value, and the promises that it makes
    crash.py        the crash map: the script stopped everywhere, in every way
    files.py        what a crash left on the disks, in words and bytes
    defects.py      well-known mistakes of a storage, each put into the real code by its name

What is not simulated: the metadata server never crashes and its disk never fails; memory is never
damaged; a node that is wrong is never malicious.  A run samples one order of events: many seeds
prove nothing, they only make a mistake unlikely.

Beyond the standard library this needs nothing but protobuf, of which there is a pure-Python wheel,
so that it runs in a browser's Python (Pyodide) too, and gives the same traces there.

Read in the order of the lists.
"""
