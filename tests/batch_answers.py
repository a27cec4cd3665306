"""Answers to batch reads, as a test that plays a bookie makes them: of entries."""

from collections.abc import Iterable

from labkit.system.model.batch_read import encode_batch_answer, encode_size
from labkit.system.model.wire import BatchReadRequest, Code


def batch_answer(request: BatchReadRequest, code: Code, entries: Iterable[bytes]) -> bytes:
    """Body of an answer with these entries."""
    pieces = [piece for entry in entries for piece in (encode_size(entry), entry)]
    return encode_batch_answer(request, code, pieces)
