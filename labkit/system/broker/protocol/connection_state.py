"""The states of a client's connection, and the commands that a client may send in each.

    AWAITS_CONNECT --CONNECT, identity proved------> CONNECTED --its token expires--> CHALLENGED
          |                                            ^                                  |
          |                                            +--AUTH_RESPONSE for the same role-+
          +--CONNECT, identity not proved----------> REFUSED

    any state --`close`, or the client is gone-----> CLOSED

                     CONNECT  PING  PONG  AUTH_RESPONSE  LOOKUP,               all other
                                                         PARTITIONED_METADATA  requests
    AWAITS_CONNECT   yes      yes   -     -              -                     -
    CONNECTED        -        yes   yes   yes            yes                   yes
    CHALLENGED       -        yes   yes   yes            yes                   yes
    REFUSED          -        yes   yes   -              yes, gets the reason  -
    CLOSED           -        -     -     -              -                     -

A client that sends a command that its state does not allow is disconnected.  Once it has sent
CONNECT, a request of a type that this broker does not know gets an ERROR instead.

REFUSED exists because Pulsar's C++ client treats an ERROR instead of CONNECTED as a broken
connection and silently reconnects.  So every client gets CONNECTED, and a client that did not prove
its identity gets the reason in response to its first request, one of the two in the table.

Independently of its state, a client must show that it is alive.  At each check:

    HEARD     -> QUIET
    QUIET     -> PINGED, and a PING goes out
    PINGED    -> the connection is closed

and whatever the client sends makes it HEARD.

In Pulsar: `ServerCnx.State`, `common/protocol/PulsarHandler.java`.
"""

from collections.abc import Collection, Mapping
from enum import Enum, auto

from labkit.system.model.proto.pulsar_pb2 import BaseCommand


class ConnectionState(Enum):
    """How far a client has come in proving its identity, or that it is gone."""

    AWAITS_CONNECT = auto()
    CONNECTED = auto()
    CHALLENGED = auto()
    """The client's token has expired, and it was asked for another one."""
    REFUSED = auto()
    CLOSED = auto()


_ALL_BUT_CONNECT = frozenset(BaseCommand.Type.values()) - {BaseCommand.CONNECT}

ALLOWED_COMMANDS: Mapping[ConnectionState, Collection[int]] = {
    ConnectionState.AWAITS_CONNECT: {BaseCommand.CONNECT, BaseCommand.PING},
    ConnectionState.CONNECTED: _ALL_BUT_CONNECT,
    ConnectionState.CHALLENGED: _ALL_BUT_CONNECT,
    ConnectionState.REFUSED: {
        BaseCommand.PING,
        BaseCommand.PONG,
        BaseCommand.LOOKUP,
        BaseCommand.PARTITIONED_METADATA,
    },
    ConnectionState.CLOSED: (),
}


class Liveness(Enum):
    """Whether the client has sent anything since the last checks."""

    HEARD = auto()
    QUIET = auto()
    """Nothing since the last check."""
    PINGED = auto()
    """Nothing since a PING that asked for an answer."""
