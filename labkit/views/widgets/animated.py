"""Renders a film as one SVG file that plays without scripts.

A mark is written once for each period during which its appearance does not change, and is visible
only during that period. For readers who prefer reduced motion, and in viewers without CSS
animation, the file shows the last scene.
"""

import re
from collections.abc import Sequence
from itertools import groupby

from labkit.views.widgets.drawing.palette import still_style
from labkit.views.widgets.drawing.scene import Mark, Move, escaped, size_of
from labkit.views.widgets.film import Beat

Version = tuple[float, float, Mark]
"""The start and end of a period in milliseconds, and the mark as it looks during that period."""
REST_MS = 3000
_MARGIN = 10
SPEED = 1.5
"""The speed relative to an interactive view. It is faster, because readers cannot pause the
animation anyway.
"""
_MOVING = "@media (prefers-reduced-motion:no-preference){"


def animated(beats: Sequence[Beat], end: float, words: str) -> str:
    """Return an SVG document that plays the beats up to `end`, pauses, and then starts again."""
    shown = [beat for beat in beats if beat.at <= end]
    ends = [*(beat.at for beat in shown[1:]), end + REST_MS]
    versions = [(b.at, until, b.scene) for b, until in zip(shown, ends, strict=True)]
    return _Writer(end + REST_MS).document([v for v in versions if v[0] < v[1]], words)


class _Writer:
    def __init__(self, length: float) -> None:
        self.length = length
        self.rules: dict[str, str] = {}
        self.animations: dict[str, str] = {}
        self.parts: list[str] = []

    def document(self, versions: Sequence[Version], words: str) -> str:
        height = size_of(versions[-1][2])[1]
        width = max(_right_edge(scene) for _, _, scene in versions) + _MARGIN
        self._children(versions)
        motion = _MOVING + "".join(self.rules.values()) + "}"
        body = "".join(self.parts)
        page = f'<rect width="{width:g}" height="{height:g}" rx="8" class="f-page"/>'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}"'
            f' width="{width:g}" height="{height:g}" role="img" aria-label="{escaped(words)}"'
            ' font-family="DejaVu Sans, Verdana, sans-serif" font-size="12" fill="none">'
            f"<title>{escaped(words)}</title><style>{still_style(body)}{motion}</style>{page}{body}</svg>\n"
        )

    def _children(self, versions: Sequence[Version]) -> None:
        found: dict[str, list[Version]] = {}
        order: list[str] = []
        for start, end, mark in versions:
            place = 0
            for child in mark.children:
                if child.tag == "title":
                    continue
                if child.key not in found:
                    order.insert(place, child.key)
                found.setdefault(child.key, []).append((start, end, child))
                place = order.index(child.key) + 1
        begin, stop = versions[0][0], versions[-1][1]
        for key in order:
            self._mark(found[key], begin, stop)

    def _mark(self, versions: Sequence[Version], begin: float, stop: float) -> None:
        for _, run in groupby(_joined(versions), key=lambda version: version[0]):
            same = [version for _, version in run]
            first, last = same[0][0], same[-1][1]
            rules = []
            # If a mark exists for as long as its parent does, it inherits the parent's visibility.
            if has_own_life := first > begin or last < stop:
                rules.append(self._seen(first, last))
            if same[0][2].move:
                rules.append(self._way(same[0][2].move))
            if len(rules) > 1:
                self._together(rules)
            self._write(same, rules, hidden_at_rest=has_own_life and last < self.length)

    def _write(
        self, versions: Sequence[Version], rules: Sequence[str], hidden_at_rest: bool
    ) -> None:
        mark = versions[0][2]
        attributes = {k: v for k, v in mark.attributes.items() if k in _KEPT}
        classes = " ".join([str(attributes.pop("class", "")), *rules]).strip()
        text = "".join(
            f' {name}="{escaped(str(value))}"' if isinstance(value, str) else f' {name}="{value:g}"'
            for name, value in attributes.items()
        )
        text += f' class="{classes}"' if classes else ""
        text += ' visibility="hidden"' if hidden_at_rest else ""
        self.parts.append(f"<{mark.tag}{text}>{escaped(mark.text, quote=False)}")
        self._children(versions)
        self.parts.append(f"</{mark.tag}>")

    def _seen(self, first: float, last: float) -> str:
        a, b = self._part(first), self._part(last)
        name = f"s{a}-{b}".replace(".", "_")
        frames = [f"0%{{visibility:{'visible' if first <= 0 else 'hidden'}}}"]
        frames += [f"{a}%{{visibility:visible}}"] if first > 0 else []
        frames += [f"{b}%,100%{{visibility:hidden}}"] if last < self.length else []
        return self._rule(name, "".join(frames), "step-end")

    def _way(self, move: Move) -> str:
        a, b = self._part(move.start), self._part(move.end)
        name = f"m{a}-{b}-{move.dx:g}-{move.dy:g}".replace(".", "_")
        from_there = f"transform:translate({move.dx:g}px,{move.dy:g}px)"
        frames = f"0%,{a}%{{{from_there}}}{b}%,100%{{transform:none}}"
        return self._rule(name, frames, "linear")

    def _rule(self, name: str, frames: str, how: str) -> str:
        seconds = self.length / 1000 / SPEED
        self.animations[name] = f"{name} {seconds:g}s {how} infinite"
        self.rules[name] = (
            f"@keyframes {name}{{{frames}}}.{name}{{animation:{self.animations[name]}}}"
        )
        return name

    def _together(self, names: Sequence[str]) -> None:
        """Combine several animations of a mark in one rule, because only one of two rules would
        apply.
        """
        both = ",".join(self.animations[name] for name in names)
        self.rules[".".join(names)] = f".{'.'.join(names)}{{animation:{both}}}"

    def _part(self, time: float) -> float:
        return round(min(time / self.length, 1) * 100, 2)


def _right_edge(mark: Mark) -> float:
    """Return the x coordinate of the rightmost edge of the boxes of the mark and its children."""
    own = mark.attributes
    shift = re.match(r"translate\((\S+)", str(own.get("transform", "")))
    inner = [_right_edge(child) for child in mark.children]
    if mark.tag == "rect":
        inner.append(float(own["x"]) + float(own["width"]))
    return max(inner, default=0.0) + (float(shift[1]) if shift else 0.0)


_KEPT = {
    *("x", "y", "width", "height", "rx", "cx", "cy", "r", "d", "class", "transform"),
    *("text-anchor", "font-size", "font-weight", "stroke-width", "stroke-dasharray"),
}
"""The attributes that affect a mark's appearance."""


def _joined(versions: Sequence[Version]) -> list[tuple[int, Version]]:
    """Number the versions, giving the same number to consecutive versions that look the same."""
    numbered, number = list[tuple[int, Version]](), 0
    for at, version in enumerate(versions):
        before = versions[at - 1] if at else version
        number += before[1] < version[0] or _look(before[2]) != _look(version[2])
        numbered.append((number, version))
    return numbered


def _look(mark: Mark) -> tuple[object, ...]:
    look = {name: value for name, value in mark.attributes.items() if name in _KEPT}
    return mark.tag, look, mark.text, mark.move
