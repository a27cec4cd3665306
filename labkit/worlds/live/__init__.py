"""The live world: real files, TCP, ZooKeeper and processes behind the ports of the other packages.

    behind the ports
      disk, regular_files, file_system, disk_thread
                        files behind the `Disk` port, checks that each is a regular file, syncs of
                        many at once, and the thread that waits for them
      remedies          what to do about an error of the operating system
      net, peers, heap, open_files
                        frames over TCP behind the `Network` port; limits on the connections of a
                        process and their memory, and the return of freed memory
      zookeeper_store   a ZooKeeper session behind the `MetadataStore` port
      posix             locks and syncs, which differ between systems and are missing on Windows
      new_client        a client of a cluster, with all of these
      clock, trace_stream
                        the clocks; a node's events, streamed to every listener
    processes
      bookie_process, autorecovery_process, broker_process
                        each as a separate process, over `labkit.system.node`
      server_ports      the ports of a server: TCP, ZooKeeper, clock, random numbers
      properties, known_keys, server_config, broker_config
                        their settings from BookKeeper's and Pulsar's configuration files
      private           files and folders for their owner alone
      stop_signal, cycles
                        the signals that stop them, and the interval of Python's cyclic garbage
                        collection
      place_option      the option `--zookeeper` beside a file that names a place, too
      admin_server, admin_http, admin_call, admin_clusters, admin_namespaces, admin_policies,
      admin_topics, admin_messages, admin_subscriptions, admin_stats, admin_partitions,
      admin_schemas, compression, foreign_pages
                        a broker's HTTP side, the limits on requests, and the web pages whose
                        requests it refuses
      tokens, token_config, peer_log, complaints
                        authentication of clients; log lines about their mistakes; lines on outputs
                        that may be full
    a cluster
      local_process     a cluster as a process
      cluster, node_process
                        ZooKeeper, bookies and brokers on this machine, which can be killed and
                        restarted
      zookeeper, zookeeper_secret, java, guard
                        a real ZooKeeper server from PySpark's jars, on the Java that is found; it
                        ends with its owner

Everything listens on the loopback address only, unless a bookie's or a broker's configuration names
another one (`advertisedAddress`).

Read in this order: `cluster`, `node_process`, `bookie_process`, `disk`, `net`, `peers`,
`zookeeper_store`, `trace_stream`, `zookeeper`, `guard`, `java`; the others as you meet them.
"""
