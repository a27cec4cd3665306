"""Connections and open files."""

import resource
import sys

import pytest

from labkit.live.open_files import within_open_files
from labkit.live.peers import PeerLimits
from labkit.model.errors import BKIncorrectParameterException


@pytest.mark.parametrize(
    ("limit", "connections"),
    [(5000, 1000), (1200, 1000), (700, 500), (resource.RLIM_INFINITY, 1000)],
)
def test_a_server_has_as_many_connections_as_open_files_are_left_for(
    monkeypatch: pytest.MonkeyPatch, limit: int, connections: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, sys.maxsize))
    assert within_open_files(PeerLimits(), others=200).most_connections == connections


def test_a_server_without_open_files_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (300, 300))
    with pytest.raises(BKIncorrectParameterException, match=r"300 open files.* 295 .*ulimit -n"):
        within_open_files(PeerLimits(), others=295)
