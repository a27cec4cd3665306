"""The live world: real files, TCP, ZooKeeper and processes behind the ports of the other packages.

    behind the ports
      disk, regular_files, file_system, disk_thread
                        files behind the `Disk` port, what may stand where a file should be, syncs
                        of many at once, and the thread that waits for them
      remedies          what to do about an error of the operating system
      net, peers, heap, open_files
                        frames over TCP behind the `Network` port; how many connections a process
                        has, what they may take of its memory, and how it goes back
      zookeeper_store   a ZooKeeper session behind the `MetadataStore` port
      posix             locks and syncs, which each system has otherwise and Windows lacks
      new_client        a client of a cluster, with all of these
      clock, trace_stream
                        the clocks; a node's events, streamed to every listener
    processes
      bookie_process, autorecovery_process, broker_process
                        each as a separate process, over `labkit.server`
      server_ports      what a server gets of this machine
      properties, known_keys, server_config, broker_config
                        what BookKeeper's and Pulsar's configuration files say to them
      private           files and folders for their owner alone
      stop_signal, cycles
                        how they are stopped, and how often Python collects garbage
      admin_server, admin_http, admin_call, admin_topics, admin_namespaces
                        a broker's HTTP, and what a stranger may send there
      tokens, token_config, peer_log
                        who may come in; a line on what peers do wrong
    a cluster
      cluster, node_process
                        ZooKeeper, bookies and brokers here, to be killed and brought back
      zookeeper, zookeeper_secret, java, missing, guard
                        a real ZooKeeper server from PySpark's jars, on the Java that is found, that
                        ends with its owner

Everything listens on the loopback address only, unless a bookie or a broker is configured with
another one (`advertisedAddress`).

Read in this order: `cluster`, `node_process`, `bookie_process`, `disk`, `net`, `peers`,
`zookeeper_store`, `trace_stream`, `zookeeper`, `guard`, `java`; the others as you meet them.
"""
