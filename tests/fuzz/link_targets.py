"""Fuzz links to runs, which may come from a stranger: the whole link, and what it contains."""

import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode

from labkit.worlds.sim.explore.counterexamples import counterexample
from labkit.worlds.sim.run import run
from labkit.worlds.sim.run_link import RunLink
from tests.fuzz.harness import Target

_RUNS = [run(counterexample(name)) for name in ("ack after one bookie", "marks not rebuilt")]
_LINKS = [
    _RUNS[0].link("SpaceTime", {"ledger": 0, "first_entry": 1, "begin_ms": 0.5}, at=7),
    _RUNS[1].link("BookieInside", {"bookie": "b0"}),
    _RUNS[1].link(fork=_RUNS[0], at=3),
]


def _read(link: bytes) -> object:
    return RunLink.parse(link.decode("latin-1"))


def _read_content(content: bytes) -> object:
    packed = urlsafe_b64encode(zlib.compress(content, 1)).decode().rstrip("=")
    return RunLink.parse(f"run.1.{packed}.5")


def _content(link: str) -> bytes:
    packed = link.split(".")[-2]
    return zlib.decompress(urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))


LINK_TARGETS = (
    Target("link to a run", _read, tuple(link.encode() for link in _LINKS)),
    Target("content of a link to a run", _read_content, tuple(map(_content, _LINKS))),
)
