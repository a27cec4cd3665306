"""The live world: real files, TCP, ZooKeeper and processes behind the ports of the other packages.

    disk, disk_thread   files behind the `Disk` port, and the thread that waits for their syncs
    net, peers          frames over TCP behind the `Network` port, and limits on connections
    open_files          keeps these limits below what the operating system allows
    clock               the clocks
    new_client          a client of a cluster, over all of these
    trace_stream        a node's events, streamed to every listener
    tokens, peer_log    authentication of clients, and log lines about their mistakes
    zookeeper/          a ZooKeeper server, and sessions with it
    processes/          bookies, brokers and a cluster of them as processes
    config/             BookKeeper's and Pulsar's configuration files
    admin/              a broker's HTTP side
    host/               the operating system, Python and Java

Everything listens on the loopback address only, unless a bookie's or a broker's configuration names
another one (`advertisedAddress`).

It never decides what the protocol does.  Read `processes/cluster.py` and `net.py` first.
"""
