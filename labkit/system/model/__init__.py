"""The words of the system: what travels between its parts, as immutable values and bytes.

Nothing here does I/O or keeps state.  Byte formats are declared as data (`layout`), and the
encoders, decoders and the byte views read that one declaration.

Read in this order: `layout`, `crc32c`, `entry`, `ledger`, `net`, `length_prefixed`, `wire`,
`batch_read`, `wire_v3`, `availability`, `message_id`, `errors`, `settings`, `missing_part`; then
what names bytes for people: `byte_region`, `protobuf_spans`, `ledger_spans`, `message_spans`,
`message_location`.  `proto` has the protobuf messages.
"""
