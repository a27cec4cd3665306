"""A broker: Pulsar's own clients produce to labkit's topics and consume from them.

    protocol/       a client's connection: bytes, commands, who the client is
    handlers/       what is done with each command
    broker          the whole: the connections, and what serves each command
    config          how a broker serves
    broker_service  opens topics at the first request, and closes them when their bundle leaves
    topics          a topic served by this broker: its managed ledger, producers, subscriptions
    access          who may produce: all together, or one alone
    subscriptions   a topic's subscriptions; each (`subscription`) is a cursor and its consumers
    dispatch/       which consumer gets which entry, and when
    positions       the positions that clients name by an id, a time, the end
    skipping        an administrator's acknowledgements: skipped and expired messages
    expiry          periodic work: changed policies are applied, old messages expire
    traffic         messages and bytes, and their rates
    schemas/        the schemas of messages, by version
    tenants, namespaces, policies   clusters, tenants, namespaces and their settings
    operations/     what an administrator asks for
    errors          the broker's refusals, with the code for the client

An entry is what a client sent, unchanged: all bytes of SEND after the command, from the magic
number 0x0e01 to the frame's end.  So the broker reads neither batches nor compressed payloads, and
the ledgers contain the same bytes that Pulsar would store.

The path of a message: SEND -> checksum -> the topic's publisher (`topic/producing/publishing`) ->
managed ledger -> Qa bookies -> SEND_RECEIPT.  All frames of a receive are pushed together, and all
receipts of one turn of the loop leave together.  And back: managed ledger -> dispatcher, while a
consumer has permits -> MESSAGE -> ACK -> cursor.

Invariants: a receipt goes out only when Qa bookies have the entry; receipts of a producer go out in
the order of its sends; once an add has failed, no further message of any of the topic's producers
is stored until they have registered again.  The topic is then closed, and its owner opens it again
at the next lookup: recovery finds which entries exist, so no broker has to guess.  Ownership of a
topic is a hint (`topic/ownership`): fencing of the ledgers is what keeps two brokers from both
storing.

Memory per client is bounded in both directions: a client that sends faster than the bookies store
is not read for a while, and a client that does not read is sent nothing more.

Left out: transactions, geo-replication, topic-list watches, non-persistent topics, compaction.

In Pulsar: `pulsar-broker/.../service/ServerCnx.java`, `BrokerService.java`, `PersistentTopic.java`.

Read `handlers/producers.py` and `topics` first.
"""
