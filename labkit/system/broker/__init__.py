"""A broker that Pulsar's own clients can use to produce and consume messages.

    protocol/            a client connection: frames, commands, authentication and authorization
    handlers/            one handler for each command
    broker               the whole broker: accepts connections and runs the periodic tasks
    config               settings, named as in broker.conf
    broker_service       looks up topics, loads them on first use, unloads them with their bundle
    topics               a loaded topic: its managed ledger, producers and subscriptions
    access               producer access modes: shared or exclusive
    topic_subscriptions  all subscriptions of a topic
    subscription         one subscription: a cursor and its consumers
    dispatch/            decides which consumer gets which entry, and when
    ownership            decides which broker owns a topic: bundles of topics, and their nodes
    positions            finds positions by message id, publish time or number of entries
    expiry               expires old messages
    traffic              counts messages and bytes, and computes their rates
    schemas/             versioned message schemas
    tenants              clusters, tenants and namespaces
    namespaces           lists the topics of a namespace
    policies             namespace policies, which override the configuration
    operations/          admin operations on topics
    errors               the broker's errors and their Pulsar error codes

The broker stores each entry exactly as the client sent it: all bytes that follow the command in the
SEND frame, starting with the magic number 0x0e01. It never parses batches or compressed payloads.

Invariants:

- A receipt is sent only after Qa bookies have the entry, and each producer gets its receipts in the
  order in which it sent its messages.
- After an add fails, the topic is closed, and its owner reopens it on the next lookup; recovery
  then determines which entries exist. Further messages from a producer are not stored until that
  producer has registered again.
- Topic ownership is only a hint (`ownership`). Ledger fencing prevents two brokers from storing
  messages in a topic at the same time.

The memory used per client is bounded: the broker stops reading from a client that sends messages
faster than the bookies can store them, and stops sending to a client that does not read.

Not supported: transactions, geo-replication, topic-list watches, non-persistent topics, compaction.

In Pulsar: `pulsar-broker/.../service/ServerCnx.java`, `BrokerService.java`, `PersistentTopic.java`.

Read `handlers/producers.py` and `topics` first.
"""
