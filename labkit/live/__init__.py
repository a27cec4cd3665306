"""The live world: real files, TCP, ZooKeeper and processes behind the ports of the other packages.

    disk              files and fdatasync behind the `Disk` port
    net               frames over TCP behind the `Network` port
    zookeeper_store   a ZooKeeper session behind the `MetadataStore` port
    trace_stream      a node's events to whoever connects
    bookie_process    a bookie as a process of its own
    cluster           ZooKeeper and bookies of this machine, to be killed and brought back
    zookeeper, java, guard
                      a real ZooKeeper server from PySpark's jars, on the Java that is found, that
                      ends with its owner

Everything listens on the loopback address only, unless a bookie is told another one
(`advertisedAddress`).

Read in this order: `cluster`, `bookie_process`, `disk`, `net`, `zookeeper_store`, `trace_stream`,
`zookeeper`, `guard`, `java`.
"""
