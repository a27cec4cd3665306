"""Messages in flight are described in words."""

from contextvars import copy_context
from typing import Any

import pytest

from labkit.system.metadata.store import NoNodeError
from labkit.worlds.sim.machine.decisions import Decisions
from labkit.worlds.sim.machine.links import Parcel, Purpose
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.machine.network import SimNetwork
from labkit.worlds.sim.play.message_words import words_of


def words_of_metadata(*body: Any) -> str:
    network = SimNetwork(SimLoop(), Decisions(None, {}, lambda: 0), lambda *_, **__: None)
    parcel = Parcel(network.link("zk", "w"), 0, copy_context(), None, [body])
    return words_of(parcel, to_server=False)


def test_a_response_of_the_metadata_server_says_whether_the_request_failed() -> None:
    assert words_of_metadata("answer", 3, "/ledgers/1") == "done"
    assert words_of_metadata("answer", 3, NoNodeError("/ledgers/1")) == "failed"


@pytest.mark.parametrize(
    ("purpose", "words"),
    [
        (Purpose.CONNECT, "open a connection"),
        (Purpose.ACCEPT, "the connection is open"),
        (Purpose.REFUSE, "the connection is refused"),
        (Purpose.CLOSE, "the connection is closed"),
    ],
)
def test_a_message_says_what_happens_to_the_connection(purpose: Purpose, words: str) -> None:
    network = SimNetwork(SimLoop(), Decisions(None, {}, lambda: 0), lambda *_, **__: None)
    parcel = Parcel(network.link("w", "b0"), 0, copy_context(), None, [], purpose)
    assert words_of(parcel, to_server=True) == words
