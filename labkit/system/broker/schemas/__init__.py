"""Stores and compares message schemas in the same way as Pulsar.

    registry             the versions of a topic's schema
    storage              where they are stored: a locator node, and one ledger per version
    types                names of schema types, and KeyValue schemas
    checks               validates schemas and checks compatibility with earlier versions
    avro_compatibility   checks whether one Avro schema can read data written with another

Schemas are compared only with each other. Messages are never validated against a schema. Read
`registry` and `checks` first.
"""
