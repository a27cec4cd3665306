"""Reads configuration files of BookKeeper and Pulsar.

    properties       parses lines of `key=value`
    known_keys       the keys that labkit obeys or rejects; the *.tsv tables list the rejected ones
    token_config     the keys for verifying tokens
    metadata_option  combines the option `--zookeeper` with a configuration file

A server prints the names of all keys that it does not use. Read `known_keys` and `properties`
first.
"""
