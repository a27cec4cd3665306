"""Complete servers, assembled from their components: a bookie, autorecovery and a broker.

A server runs the same code in the live world and in the simulated world. Only the process around it
and its ports (`ServerPorts`, `BookiePorts`) differ.

    bookie        starts with open disks and a listening socket; checks how full the disks are, then
                  registers; serves clients, renews its registration, collects garbage, monitors
                  the disks and, if configured, repairs ledgers
    autorecovery  runs in a session of its own, and starts a new one when that session is lost
    broker        registers and serves clients; on shutdown, closes its topics within a time limit

Invariants:
  - A bookie listens for lost sessions even before its first registration, so it never remains
    unregistered.
  - A bookie that fails to re-register keeps serving the clients that already know it.
  - If a component fails permanently, its server ends.

In BookKeeper: `server/EmbeddedServer.java`, `bookie/BookieStateManager.java`,
`proto/BookieServer.java`. In BookKeeper, a bookie that cannot re-register shuts down, and an
autorecovery process exits when its session is lost (`AutoRecoveryMain`). In labkit, both start a
new session instead.

Read in this order: `ports`, `registration`, `autorecovery`, `bookie`, `broker`.
"""
