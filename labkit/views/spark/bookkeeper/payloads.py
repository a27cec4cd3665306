"""Payloads as the producer's application sent them: unpacked if its client compressed them.

A client compresses the payload of a whole entry, all messages of a batch together.  In Pulsar:
`common/compression/`.
"""

from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.pulsar_pb2 import CompressionType, MessageMetadata
from labkit.system.topic.compression import DecompressionError, decompressed


class PayloadError(LabkitError):
    """The payload of an entry cannot be unpacked; the message names the entry."""


def plain_payload(
    metadata: MessageMetadata, payload: bytes, ledger_id: int, entry_id: int
) -> bytes:
    """The payload of an entry, unpacked.

    A chunk of a large message stays as it is: its client compressed the whole message, then cut it.
    Raises `PayloadError` for encrypted and damaged ones.
    """
    if metadata.HasField("encryption_param") or metadata.HasField("encryption_algo"):
        raise PayloadError(
            f"entry {entry_id} of ledger {ledger_id} is encrypted, and only its consumers have the"
            " key. Columns that need no key can be read by a schema that names only these, such as"
            " .schema('ledger long, entry long, batch_index int'); option 'ledgers' instead of"
            " 'topic' reads payloads as they are stored"
        )
    if not metadata.compression or metadata.HasField("chunk_id"):
        return payload
    try:
        return decompressed(metadata.compression, payload, metadata.uncompressed_size)
    except DecompressionError as error:
        kind = CompressionType.Name(metadata.compression)
        raise PayloadError(
            f"entry {entry_id} of ledger {ledger_id} is compressed by {kind}: {error}"
        ) from None
