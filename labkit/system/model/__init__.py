"""The system's data model: immutable values, and their encodings as bytes.

Nothing here does I/O or keeps state.  Byte formats are declared as data (`layout`); encoders,
decoders and byte views all use the same declaration.  `byte_region`, `message_location` and the
modules named `_spans` label bytes for display; `proto` contains the protobuf messages.

Read `entry`, `ledger` and `wire` first.
"""
