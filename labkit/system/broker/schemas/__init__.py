"""The schemas of a topic's messages, stored and compared as Pulsar does.

    registry             the versions of a topic's schema
    storage              where they are stored: a locator in a znode, each version in a ledger
    types                the names of schema types
    checks               which schemas may be stored, and which fit the ones before
    avro_compatibility   whether one Avro schema can read data of another
    policy               what a namespace demands of its topics' schemas

The broker never decodes a message.  Read `registry` and `checks` first.
"""
