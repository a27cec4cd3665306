"""Simulates time, random decisions, processes, the network, disks and ZooKeeper.

    loop             an event loop whose clock jumps to the next event
    decisions        named random decisions with harmless defaults
    process          a node's process, which a crash stops for good
    links, network   messages that arrive late, are lost or are held back; TCP-like connections
    disk, disk_operation, disk_work   a disk that forgets unsynced data; slow and failing calls
    tree, zookeeper, lagging_server   the metadata server, and a replica that lags behind
    metadata         a client's session with the metadata server
    garbage_collector, interrupt      no garbage collection during a run; interrupts stop the run

No module here depends on bookies or brokers. Start with `loop` and `disk`.
"""
