"""Hashes keys to numbers from 0 to 65,535, and tracks which consumer holds the unacknowledged
entries of each group.

In Pulsar: `common/util/Murmur3_32Hash.java`.
"""

from functools import lru_cache

from labkit.system.broker.dispatch.consumer import Consumer

HASH_COUNT = 65_536
_WORD = 0xFFFFFFFF
_CACHED_BYTES = 256
_HASHED_BYTES = 16 * 1024
"""Only this prefix of a key is hashed: hashing megabytes would block other clients for seconds."""


def hash_of_key(key: bytes) -> int:
    if len(key) <= _CACHED_BYTES:
        return cached_hash(key)
    return _hash(key[:_HASHED_BYTES])


def _hash(key: bytes) -> int:
    return (murmur3_32(key) & 0x7FFFFFFF) % HASH_COUNT


cached_hash = lru_cache(maxsize=100_000)(_hash)
"""Caches hashes for keys of at most 256 bytes, because most keys recur."""


def murmur3_32(data: bytes) -> int:
    """MurmurHash3 by Austin Appleby: x86, 32 bits, seed 0."""
    value = 0
    whole = len(data) & ~3
    for offset in range(0, whole, 4):
        value ^= _scramble(int.from_bytes(data[offset : offset + 4], "little"))
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
    """Tracks which consumer holds each group's unacknowledged entries, and how many."""

    def __init__(self) -> None:
        self._holders: dict[int, tuple[Consumer, int]] = {}

    def holder_of(self, group: int) -> Consumer | None:
        consumer, _ = self._holders.get(group, (None, 0))
        return consumer

    def add(self, consumer: Consumer, group: int) -> None:
        _, count = self._holders.get(group, (consumer, 0))
        self._holders[group] = consumer, count + 1

    def remove(self, group: int) -> None:
        consumer, count = self._holders.pop(group)
        if count > 1:
            self._holders[group] = consumer, count - 1
