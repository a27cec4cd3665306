"""Simulates time, random decisions, processes, the network, disks and ZooKeeper.

    loop             an event loop whose clock jumps to the next event
    decisions        every random decision has a name and a harmless default
    process          one life of a node: a crash drops it, and nothing of it is resumed
    links, network   messages that are late, lost or cut; connections like TCP's over them
    disk, disk_operation, disk_work   a disk that forgets what was not synced; slow and faulty work
    tree, zookeeper, lagging_server   the metadata server, and one that is behind the others
    metadata         a client's session with it
    garbage_collector, interrupt      no garbage collection in a run; an interrupt reaches the run

No module here depends on bookies or brokers.  Read `loop` and `disk` first.
"""
