"""Escapes unprintable characters in untrusted text before it reaches a terminal."""

import re

_UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Control characters, line separators, invisible and bidirectional marks, unpaired surrogates."""


def printable(text: str, kept: str = "") -> str:
    r"""Escape unprintable characters as in JSON (`\u001b`), except those in `kept`.

    Control characters can move the cursor and delete lines, so a student's exception or a
    producer's property could otherwise forge the output of a command.
    """

    def escaped(found: re.Match[str]) -> str:
        units = found[0].encode("utf-16-be", "surrogatepass")
        text = "".join(rf"\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
        return found[0] if found[0] in kept else text

    return _UNPRINTABLE.sub(escaped, text)
