"""Fuzz links to runs and crash maps, which may come from a stranger. Both the link as a whole and
its decoded contents are fuzzed.
"""

import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode

from labkit.worlds.sim.crash_map.crash_map import crash_map
from labkit.worlds.sim.explore.counterexamples import counterexample
from labkit.worlds.sim.run import run
from labkit.worlds.sim.run_link import parse_link
from labkit.worlds.sim.settings.bookie_script import (
    Add,
    Checkpoint,
    Collect,
    Commit,
    Fence,
    Restart,
    SetExplicitLac,
)
from tests.fuzz.harness import Target

_RUNS = [run(counterexample(name)) for name in ("ack after one bookie", "marks not rebuilt")]
_LINKS = [
    _RUNS[0].link("SpaceTime", {"ledger": 0, "first_entry": 1, "begin_ms": 0.5}, at=7),
    _RUNS[1].link("BookieInside", {"bookie": "b0"}),
    _RUNS[1].link(fork=_RUNS[0], at=3),
]
_SCRIPT = (
    *(Add(5, 0), Commit(), Checkpoint(during=(Add(6, 0, 9), Commit())), SetExplicitLac(6, 0)),
    *(Fence(5), Commit(), Restart(), Collect(deleted=(6,), threshold=0.5)),
)
_MAP_LINKS = [crash_map(_SCRIPT).link(), crash_map(_SCRIPT, journal_count=2).link(at=9)]


def _read(link: bytes) -> object:
    return parse_link(link.decode("latin-1"))


def _read_content(content: bytes) -> object:
    return parse_link(f"run.1.{_packed(content)}.5")


def _read_map(content: bytes) -> object:
    return parse_link(f"crash.1.{_packed(content)}.5")


def _packed(content: bytes) -> str:
    return urlsafe_b64encode(zlib.compress(content, 1)).decode().rstrip("=")


def _content(link: str) -> bytes:
    packed = link.split(".")[-2]
    return zlib.decompress(urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))


LINK_TARGETS = (
    Target("link", _read, tuple(link.encode() for link in (*_LINKS, *_MAP_LINKS))),
    Target("content of a link to a run", _read_content, tuple(map(_content, _LINKS))),
    Target("content of a link to a crash map", _read_map, tuple(map(_content, _MAP_LINKS))),
)
