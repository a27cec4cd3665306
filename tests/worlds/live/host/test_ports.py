"""A server's port is still available when the server restarts."""

import socket

import pytest

from labkit.worlds.live.host.ports import LOOPBACK, PortTaken, free_port


def test_a_chosen_port_is_never_given_to_an_outgoing_connection() -> None:
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        given = listener.getsockname()[1]
    assert max(free_port() for _ in range(200)) < 32_768 <= given


def test_a_port_that_another_program_uses_is_refused() -> None:
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen()
        with pytest.raises(PortTaken, match="in use by another program"):
            free_port(listener.getsockname()[1])
