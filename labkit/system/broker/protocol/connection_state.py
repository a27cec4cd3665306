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
    REFUSED          -        yes   yes   -              answered by the       -
                                                         refusal's reason
    CLOSED           -        -     -     -              -                     -

A client that sends a command that its state does not allow is disconnected.  Once it has sent
CONNECT, a request of a type that this broker does not know gets an ERROR instead.

REFUSED exists because Pulsar's C++ client takes an ERROR in place of CONNECTED for a broken
connection, and silently tries again.  So every client gets CONNECTED, and one that did not prove
its identity learns the reason from its first requests, which are the two in the table.

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
    """What the broker knows of the client."""

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
    """When the client has last sent something."""

    HEARD = auto()
    QUIET = auto()
    """Nothing since the last check."""
    PINGED = auto()
    """Nothing since a PING that asked for an answer."""
