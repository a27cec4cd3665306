"""Strangers' text on a terminal."""

import re

_UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Control characters, line separators, marks that change the direction of writing or are not
visible, and halves of surrogate pairs."""


def printable(text: str, kept: str = "") -> str:
    r"""The text with unprintable characters as JSON escapes them (`\u001b`), except those in
    `kept`.

    A terminal obeys control characters: they move the cursor and delete lines.  So a student's
    exception or a producer's property could otherwise show what no command said.
    """
    return _UNPRINTABLE.sub(
        lambda found: found[0] if found[0] in kept else _escaped(found[0]), text
    )


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(rf"\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
