"""Bookies, brokers and autorecovery as processes, and a cluster of them.

    bookie_process, broker_process, autorecovery_process   each server's main function
    server_config, broker_config   their settings, from `bk_server.conf` and `broker.conf`
    server_ports                   the ports of a server: TCP, ZooKeeper, clock, random numbers
    node_process                   starts, pauses, kills and ends one of these processes
    cluster                        ZooKeeper, bookies and brokers on this machine
    local_process                  `labkit local`: a cluster until Ctrl-C

Read `cluster` and `bookie_process` first.
"""
