"""Formats counts with their nouns, in singular or plural."""

from typing import NamedTuple


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 copy`, `3 copies`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


class QuorumWords(NamedTuple):
    """The quorums of a ledger: `4 bookies`, `3 copies` and `2 acks`."""

    bookies: str
    copies: str
    acks: str

    def __str__(self) -> str:
        return " · ".join(self)


def quorum_words(ensemble_size: int, write_quorum: int, ack_quorum: int) -> QuorumWords:
    """Describe the quorums for readers who do not know the letters E, Qw and Qa. The number is `?`
    for an unknown size (-1).
    """
    return QuorumWords(
        _size(ensemble_size, "bookie", "bookies"),
        _size(write_quorum, "copy", "copies"),
        _size(ack_quorum, "ack", "acks"),
    )


def _size(size: int, noun: str, plural: str) -> str:
    return f"? {plural}" if size < 0 else counted(size, noun, plural)
