"""Decodes films in Python, and provides runs from which films are made."""

from collections.abc import Iterator
from functools import cache
from typing import Any
from xml.etree import ElementTree

from labkit.views.widgets.drawing.scene import Mark, Move
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash, Pause
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Recover, Write

CRASHED = Scenario(Cluster(5), (Write(entries=12),), (Crash("b1", when=At(11.5)),), seed=7)
UNFENCED = Scenario(
    Cluster(4),
    (Write(entries=9, every_ms=1.0), Recover(when=On("lac.advanced"))),
    variant="recovery without fencing",
)
TAKEN_OVER = Scenario(
    Cluster(3),
    (Write(entries=8, window=2, every_ms=0.5), Recover(when=On("node.paused"))),
    (Pause("w", 20.0, On("lac.advanced", 4)),),
)
"""A run in which the writer continues after recovery has fenced the ledger."""


@cache
def crashed() -> Trace:
    """Return a run in which one of five bookies is killed while twelve entries are written."""
    return run(CRASHED)


def scenes_of(film: dict[str, Any]) -> list[Mark]:
    """Decode the scene of each beat from the tables, as a browser does."""
    children: list[list[int]] = []
    attributes_of_all = attributes_of(film)
    for _, like, start, removed, *put in film["rows"]:
        old = children[like] if like >= 0 else []
        children.append([*old[:start], *put, *old[start + removed :]])

    def mark(row: int) -> Mark:
        key, tag, attributes, words, move = film["heads"][film["rows"][row][0]]
        inside = tuple(map(mark, children[row]))
        way = Move(*move) if move else None
        return Mark(key, tag, attributes_of_all[attributes], film["words"][words], inside, way)

    return [mark(beat[1]) for beat in film["beats"]]


def words_in(svg: str) -> str:
    """Return the texts of a picture, one per line."""
    root = ElementTree.fromstring(svg)
    return "\n".join(each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text"))


def titles_of(scene: Mark) -> list[str]:
    """Return the tooltips of a scene."""
    return [mark.text for mark in marks_of(scene) if mark.tag == "title"]


def marks_of(mark: Mark) -> Iterator[Mark]:
    """Yield the mark and all its descendants."""
    yield mark
    for child in mark.children:
        yield from marks_of(child)


def attributes_of(film: dict[str, Any]) -> list[dict[str, str | float]]:
    """Return the attributes of each of the film's marks."""
    return [dict(film["pairs"][pair] for pair in pairs) for pairs in film["attributes"]]


def grown(film: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return the film's tables, extended by the new rows."""
    return {name: [*film[name], *more[name]] for name in more}
