"""Configuration files of BookKeeper and Pulsar.

    properties       reads lines of `key=value`
    known_keys       which keys labkit obeys or refuses; the refused ones are in two tables here
    token_config     the keys that verify tokens
    metadata_option  the option `--zookeeper` beside a configuration file

A server prints the names of all keys that it does not use.  Read `known_keys` and `properties`
first.
"""
