"""The system's data model: immutable values, and their encodings as bytes.

The modules of this package do not do any I/O and do not keep any state. Byte formats are declared
as data (`layout`), so that encoders, decoders and byte views all use the same declaration.

Read in this order: `layout`, `crc32c`, `entry`, `ledger`, `net`, `length_prefixed`, `wire`,
`batch_read`, `wire_v3`, `availability`, `message_id`, `errors`, `settings`, `missing_part`.
`proto` contains the protobuf messages.
"""
