"""Reads configuration files of BookKeeper and Pulsar.

    properties       parses lines of `key=value`
    known_keys       the keys that labkit obeys or refuses; the *.tsv tables list the refused ones
    token_config     the keys that verify tokens
    metadata_option  combines the option `--zookeeper` with a configuration file

A server prints the names of all keys that it does not use. Read `known_keys` and `properties`
first.
"""
