"""The simulated world: the real system under virtual time, where everything that can fail does.

    from labkit.worlds.sim.run import run
    trace = run(Scenario(Cluster(3), (Write(entries=20),), (Crash("b1", when=At(5)),), seed=7))

A run is a value.  The same scenario gives the same trace, event by event, in any process, on any
Python; `trace.at(moment)` goes back in time, `scenario.with_fault(...)` forks it.

What runs is the real code: `labkit.system.storage`, `bookie`, `client`, `metadata`, `autorecovery`,
`topic`, `pulsar` and `server` as they run live.  Only what lies behind their ports is simulated:

    time      loop.py        an event loop whose clock jumps to the next event
              collector.py   Python's garbage collector is off meanwhile
    chance    decisions.py   every random decision has a name and a harmless default
    a node    process.py     one life of a node: a crash drops it, and nothing of it is resumed
    network   links.py       links delay, and faults make them cut, lose, copy and swap messages
              network.py     connections that behave like TCP's over such links
    metadata  tree.py        a ZooKeeper server's nodes and watches
              zookeeper.py   the server; what it comes to first after it hung
              lagging_server.py  one of several, which is behind the others
              metadata.py    a client's session with it, over the simulated network
    disks     disk_operation.py  one operation, and how much of it survives a crash
              disk.py        a disk in memory that forgets at a crash what was not synced
              disk_work.py   its work takes time and fails; a crash stops it halfway

A scenario is one value made of others:

    value_rules.py  what their fields may hold, and the sentence that refuses anything else
    scenario_values.py  values that are written as Python and as JSON
    moments.py      when: at a time, or when an event happens
    cluster.py      the servers and their settings
    variants.py     the system with one mistake, by name; broker_variants.py: of brokers,
                    client_variants.py: of clients, cluster_variants.py: of what keeps a cluster
    workload.py     what clients do: write, read, recover, delete, name racks; what a step of your
                    own must have
    answers.py      what the steps' calls returned, for the checks
    produce.py      a topic's owner without a broker, its producer and its consumer
    publish.py      through brokers: a Pulsar producer, which resends what has no receipt
    consume.py      consumers of a subscription, which acknowledge what they were delivered, by the
                    commands of consumer_commands.py; taken.py: what they have, all together
    topic_connection.py  a client's connection to the broker that serves the topic
    faults.py       what goes wrong, each with its fault model; machine_faults.py: more of bookies'
                    disks; metadata_faults.py: of the metadata store
    forks.py        where in a run a fault can be put, so that it happens again with it
    fitting.py      whether the names in a scenario's parts fit together
    scenario.py     all of that

A world runs it:

    environment.py  what a node sees of its world
    ledger_numbers.py  the ids of the workload's ledgers
    nodes.py        what starts, crashes, pauses; a client's node
    bookie_node.py  a bookie's node: disks that outlive its processes
    broker_node.py  a broker's node: everything it knows is in the cluster
    faulty_world.py what a fault can reach of the world
    world.py        boot, workload, epilogue
    chosen_order.py the same world, but each message arrives when it is chosen
    final_reads.py  the epilogue: every entry is looked up on every bookie
    topic_reading.py  and every message in its topic
    trimming.py     the ledgers that topics have given up
    patience.py     both ask again until the metadata store answers
    trace.py        the run as a value
    run.py          run it
    interrupt.py    an interrupt of a notebook's cell reaches the thread of its run

One rule holds it together: every random choice is a decision with a name, so a failing run is a
small dictionary, and shrinking the run is an edit of that dictionary.  No code iterates over a set,
as its order differs from process to process; no world reads a clock.

The package `explore` draws scenarios, searches them for mistakes and shrinks what it finds.

And one machine alone, without network or time, stopped at every one of its disk operations:

    script.py       what a bookie does, as a value, and the promises that it makes
    crash.py        the crash map: the script stopped at every operation, in every way
    files_left.py   what a crash left on the disks, in words and bytes
    defects.py      well-known mistakes of a storage, each put into the real code by its name

Not simulated: the metadata server never crashes and its disk never fails; memory is never damaged;
a faulty node is never malicious.  A run samples one order of events: many seeds
prove nothing, they only make a mistake unlikely.

Beyond the standard library this needs only protobuf, which has a pure-Python wheel, so it also runs
in a browser's Python (Pyodide), with the same traces.

Read in the order of the lists.
"""
