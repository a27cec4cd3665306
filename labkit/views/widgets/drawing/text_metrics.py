"""Measures text, so that Python can position it, truncate it and break it into lines.

The widths are taken from the font DejaVu Sans, in hundredths of the font size. The other fonts that
a page may use are no wider.
"""

from functools import lru_cache

_PLAIN = (
    "32 40 46 84 64 95 78 27 39 39 50 84 32 36 32 34 64 64 64 64 64 64 64 64 64 64 34 34 84 84 84"
    " 53 100 68 69 70 77 63 58 77 75 29 29 66 56 86 75 79 60 79 69 63 61 73 68 99 69 61 69 39 34 39"
    " 84 50 50 61 63 55 63 62 35 63 63 28 28 58 28 97 63 61 63 63 41 52 39 63 59 82 59 59 52 64 34"
    " 64 84"
)
_WIDTHS = {chr(32 + at): int(width) for at, width in enumerate(_PLAIN.split())}
_OTHER, _BOLD = 90, 1.12


@lru_cache(8192)
def width_of(words: str, size: float = 12, *, bold: bool = False) -> float:
    hundredths = sum(_WIDTHS.get(letter, _OTHER) for letter in words)
    return hundredths * size / 100 * (_BOLD if bold else 1)


def fitted(words: str, room: float, size: float = 12, *, bold: bool = False) -> str:
    """Return the text, truncated with an ellipsis if it does not fit."""
    if width_of(words, size, bold=bold) <= room:
        return words
    while words and width_of(words + "…", size, bold=bold) > room:
        words = words[:-1]
    return words.rstrip() + "…" if words else ""


@lru_cache(4096)
def lines_of(words: str, room: float, size: float = 12, *, bold: bool = False) -> tuple[str, ...]:
    """Break the text into lines at its spaces. A word that is too long gets its own line."""
    lines, line = list[str](), ""
    for word in words.split():
        longer = f"{line} {word}" if line else word
        if line and width_of(longer, size, bold=bold) > room:
            lines.append(line)
            line = word
        else:
            line = longer
    return (*lines, line) if line else tuple(lines)


def name_lines(name: str, room: float) -> tuple[str, str]:
    """Break a bold name into two lines, if possible after a separator. The second line is truncated
    if it does not fit, unless nothing would be left of it.
    """
    letters = range(len(name), 0, -1)
    fits = next(n for n in letters if n == 1 or width_of(name[:n], bold=True) <= room)
    cut = max(name[:fits].rfind(sign) for sign in ".:-_") + 1 or fits
    return name[:cut], fitted(name[cut:], room, bold=True) or name[cut:]
