"""The steps that clients perform in a scenario.

    steps                write, read, recover and delete; the interface for custom steps
    produce              a producer that owns its topic, without a broker
    publish              a Pulsar producer, which resends messages without a receipt
    consume              consumers of a subscription; `consumer_commands` builds their commands
    delivered            the messages delivered to the consumers of a step
    topic_connection     a client's connection to the broker that owns its topic

Start with `steps` and `publish`.
"""
