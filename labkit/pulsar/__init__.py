"""A broker: Pulsar's own clients produce to labkit's topics and consume from them.

    frames          bytes of a frame <-> command and message
    config          how a broker serves
    broker          the whole: clients' connections, and who serves which command
    connection      a client's connection: each command to its handler, answers in one write
    intake          whether a client's connection is read
    lookup          how many partitions a topic has, and which broker serves it
    producers       PRODUCER, SEND: entries in, receipts out, in the order of sending
    access          who may produce: all together, or one alone
    topics          a topic that this broker serves: its managed ledger, producers, subscriptions
    broker_service  topics are opened at the first request, and closed when the bundle goes
    consumers       SUBSCRIBE, FLOW, ACK, ...: entries out, acknowledgements in
    subscriptions   those of a topic; each (`subscription`) is a cursor and who consumes the rest
    dispatch/       which consumer gets which entry, and when
    positions       the positions that clients name by an id, a time, the end
    schemas         what messages look like, by version; `avro_compatibility` compares two,
                    `schema_requests` answers clients
    namespaces      lists of topics
    refusals        requests that are not served, and the answers to them
    administration  the requests of the HTTP side
    policies        a namespace's settings that override the broker's configuration
    authentication  who a client is, and how long that is valid
    authorization   which role may do what
    errors          the broker's refusals, with the code for the client

An entry is what a client sent, untouched: all of SEND behind the command, from the magic number
0x0e01 to the frame's end.  So the broker reads neither batches nor compressed payloads, and what
lies in the ledgers is what Pulsar would have put there.

The way of a message: SEND -> checksum -> the topic's publisher (`topic/publishing`) -> managed
ledger -> Qa bookies -> SEND_RECEIPT.  All frames of a receive are pushed together, and all receipts
of one turn of the loop leave together.  And back: managed ledger -> dispatcher, while a consumer
has permits -> MESSAGE -> ACK -> cursor.

Invariants: a receipt goes out only when Qa bookies have the entry; receipts of a producer go out in
the order of its sends; once an add has failed, nothing more of any of its topic's producers is
stored until they have registered again.  The topic is then closed, and opened again by the owner at
the next lookup: recovery finds which entries exist, so no broker has to guess.  Which broker serves
a topic is a hint (`topic/ownership`): the ledgers themselves keep two of them from both storing.

Memory per client is bounded in both directions: a client that sends faster than the bookies store
is not read for a while, and a client that does not read is sent nothing more.

Left out: transactions, geo-replication, topic-list watches, statistics, non-persistent topics,
compaction, limits on what a consumer has unacknowledged.

In Pulsar: `pulsar-broker/.../service/ServerCnx.java`, `BrokerService.java`, `PersistentTopic.java`.

Read in this order: `frames`, `connection`, `broker`, `lookup`, `broker_service`, `topics`,
`producers`, `access`,
`consumers`, `subscriptions`, `subscription`, `dispatch`.
"""
