"""Encode responses to batch reads, for tests that act as a bookie."""

from collections.abc import Iterable

from labkit.system.model.batch_read import encode_batch_response, encode_size
from labkit.system.model.wire import BatchReadRequest, Code


def batch_answer(request: BatchReadRequest, code: Code, entries: Iterable[bytes]) -> bytes:
    """Return the body of a batch read response that contains these entries."""
    pieces = [piece for entry in entries for piece in (encode_size(entry), entry)]
    return encode_batch_response(request, code, pieces)
