"""Bookies, brokers and autorecovery as processes, and a cluster of them.

    bookie_process, broker_process, autorecovery_process   the main function of each server
    server_config, broker_config   their settings, read from `bk_server.conf` and `broker.conf`
    server_ports                   a server's `ServerPorts`: ZooKeeper, TCP, clock, random numbers
    node_process                   starts, pauses, kills and stops one of these processes
    cluster                        ZooKeeper, bookies and brokers on this machine
    local_process                  `labkit local`: a cluster that runs until Ctrl-C

Read `cluster` and `bookie_process` first.
"""
