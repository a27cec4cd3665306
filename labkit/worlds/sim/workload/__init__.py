"""What clients do in a scenario.

    steps                write, read, recover, delete; what a step of your own must have
    produce              a topic's owner without a broker
    publish              a producer of Pulsar's, which sends again what has no receipt
    consume              consumers of a subscription; `consumer_commands` has their commands
    delivered            what the consumers of a step were delivered
    topic_connection     a client's connection to the broker that serves its topic

Read `steps` and `publish` first.
"""
