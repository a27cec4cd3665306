"""The system's data model: immutable values and their encodings as bytes.

The modules of this package do no I/O and keep no state. Byte formats are declared as data
(`layout`), so that encoders, decoders and byte views share one declaration.

Read the modules in this order: `layout`, `crc32c`, `entry`, `ledger`, `net`, `length_prefixed`,
`wire`, `batch_read`, `wire_v3`, `availability`, `message_id`, `errors`, `settings`, and
`missing_part`. `proto` contains the protobuf messages.
"""
