"""Servers put together from their parts: a bookie, autorecovery, a broker.

A server is the same in the live and in the simulated world.  What differs is the process that it
runs in and its ports, which `ServerPorts` and `BookiePorts` name.

    bookie       the store's disks are open, its port is taken
                 look how full the disks are; register
                 serve; stay registered; collect garbage; look at the disks; repair ledgers
    autorecovery runs in its own session; when that is lost, begins another
    broker       serve; register; at the end give up the topics, for a limited time

Invariants: a bookie learns of every session that it loses from before its first registration on, so
it never stays unregistered; a failure to register again never ends a bookie, which goes on
serving the clients that know it; a part that cannot go on ends its server.

In BookKeeper: `server/EmbeddedServer.java`, `bookie/BookieStateManager.java`,
`proto/BookieServer.java`.  There a bookie that cannot register again shuts down, and one that
repairs ledgers ends when its session is lost (`AutoRecoveryMain`); here both begin another session.

Read in this order: `ports`, `registration`, `autorecovery`, `bookie`, `broker`.
"""
