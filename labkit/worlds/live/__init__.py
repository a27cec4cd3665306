"""The live world: implements the ports of `labkit.system` with real files, TCP and ZooKeeper.

    disk, disk_thread   the `Disk` port on real files, and a thread for blocking disk calls
    net, peers          the `Network` port on TCP, and limits on connections and the memory they use
    clock               wall clock and trace clock
    new_client          builds a BookKeeper client from these modules
    trace_stream        streams a node's events to every listener
    tokens, peer_log    client authentication, and rate-limited log messages about peers
    zookeeper/          a ZooKeeper server, and sessions with it
    processes/          bookies and brokers as processes, and a cluster of them
    config/             BookKeeper's and Pulsar's configuration files
    admin/              a broker's HTTP admin API
    host/               the operating system, Python and Java

All servers listen only on the loopback address, unless a bookie's or broker's configuration sets
another one (`advertisedAddress`).

This package contains no protocol logic. Read `processes/cluster.py` and `net.py` first.
"""
