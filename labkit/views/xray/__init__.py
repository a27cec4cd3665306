"""Byte X-ray: labels every byte of a bookie's files, of ledger metadata and of Pulsar's messages.

A `Span` (`labkit.system.model.layout`) names a range of bytes and shows its value. Names and sizes
are taken from the layouts that the system's encoders use, so the two cannot diverge.

    file_spans         journals, entry logs, index files, LastLogMark, cookies
    ledger_spans       a ledger's metadata as ZooKeeper stores it
    message_spans      Pulsar's batches and messages
    protobuf_spans     the fields of a protobuf message
    byte_region        a range of bytes with its spans, as the widgets draw it
    entry_locations    finds an entry in the files of one bookie
    message_location   the steps from a MessageID to bytes on disks

This package is read-only. `shell/` prints the spans; `widgets/xray` and `widgets/lineage` draw
them.
"""
