"""Formats counts with their nouns, in singular or plural."""


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 copy`, `3 copies`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
