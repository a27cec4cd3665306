"""Stores and compares the schemas of a topic's messages in the same way as Pulsar.

    registry             the versions of a topic's schema
    storage              where they are stored: a locator in a znode, each version in a ledger
    types                the names of schema types
    checks               which schemas may be stored, and which fit the ones before
    avro_compatibility   whether one Avro schema can read data of another
    policy               what a namespace demands of its topics' schemas

Schemas are compared with each other; no message is checked against one.  Read `registry` and
`checks` first.
"""
