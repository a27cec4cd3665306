"""The place of a key on the ring of 65,536 hashes, and the consumer that holds entries of a hash.

In Pulsar: `common/util/Murmur3_32Hash.java`.
"""

from functools import lru_cache

from labkit.system.broker.dispatch.consumer import Consumer

HASH_COUNT = 65_536
_WORD = 0xFFFFFFFF
_CACHED_BYTES = 256
_HASHED_BYTES = 16 * 1024
"""The rest of a longer key is ignored: hashing a key of megabytes would take seconds, in which no
other client is served.  The key still stays with one consumer.
"""


def hash_of_key(key: bytes) -> int:
    """The key's place on the ring of 65,536."""
    if len(key) <= _CACHED_BYTES:
        return cached_hash(key)
    return _hash(key[:_HASHED_BYTES])


def _hash(key: bytes) -> int:
    return (murmur3_32(key) & 0x7FFFFFFF) % HASH_COUNT


cached_hash = lru_cache(maxsize=100_000)(_hash)
"""For keys of at most 256 bytes, as most keys come again."""


def murmur3_32(data: bytes) -> int:
    """Austin Appleby's MurmurHash3, x86, 32 bits, with seed 0."""
    value = 0
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        value ^= _scramble(int.from_bytes(data[at : at + 4], "little"))
        value = (_rotate(value, 13) * 5 + 0xE6546B64) & _WORD
    value ^= _scramble(int.from_bytes(data[whole:], "little"))
    value ^= len(data)
    value = ((value ^ (value >> 16)) * 0x85EBCA6B) & _WORD
    value = ((value ^ (value >> 13)) * 0xC2B2AE35) & _WORD
    return value ^ (value >> 16)


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _WORD


def _scramble(word: int) -> int:
    return (_rotate((word * 0xCC9E2D51) & _WORD, 15) * 0x1B873593) & _WORD


class Holders:
    """For each hash with unacknowledged entries, the consumer that holds them, and their number.

    Key_Shared asks here before it hands one out, so that a hash has one holder at a time.
    """

    def __init__(self) -> None:
        self._held: dict[int, tuple[Consumer, int]] = {}

    def of(self, key_hash: int) -> Consumer | None:
        """The consumer that holds entries of the hash, if any."""
        consumer, _ = self._held.get(key_hash, (None, 0))
        return consumer

    def add(self, consumer: Consumer, key_hash: int) -> None:
        """Count one more entry of the hash for the consumer."""
        _, count = self._held.get(key_hash, (consumer, 0))
        self._held[key_hash] = consumer, count + 1

    def remove(self, key_hash: int) -> None:
        """Count one entry less: it was acknowledged, or its consumer no longer holds it."""
        consumer, count = self._held.pop(key_hash)
        if count > 1:
            self._held[key_hash] = consumer, count - 1
