"""The states of a client connection, and the commands that a client may send in each.

    AWAITS_CONNECT --CONNECT, authenticated--------> CONNECTED --its token expires--> CHALLENGED
          |                                            ^                                  |
          |                                            +--AUTH_RESPONSE for the same role-+
          +--CONNECT, not authenticated------------> REJECTED

    any state --`close`, or the client is gone-----> CLOSED

                     CONNECT  PING  PONG  AUTH_RESPONSE  LOOKUP,               all other
                                                         PARTITIONED_METADATA  requests
    AWAITS_CONNECT   yes      yes   -     -              -                     -
    CONNECTED        -        yes   yes   yes            yes                   yes
    CHALLENGED       -        yes   yes   yes            yes                   yes
    REJECTED         -        yes   yes   -              yes, returns reason   -
    CLOSED           -        -     -     -              -                     -

A client that sends a command that its state does not allow is disconnected. There is one exception:
after CONNECT, a request of an unknown type gets an ERROR response.

REJECTED exists because Pulsar's C++ client mistakes an ERROR in response to CONNECT for a broken
connection, and silently reconnects. Therefore, a client that failed to authenticate gets CONNECTED,
and learns the reason from the response to its first request (LOOKUP or PARTITIONED_METADATA).

Independently of these states, a client must show that it is alive. A periodic check makes these
transitions:

    HEARD     -> QUIET
    QUIET     -> PINGED, and the broker sends a PING
    PINGED    -> the connection is closed

Any command from the client resets the state to HEARD. The exception are the states AWAITS_CONNECT
and REJECTED, in which only CONNECT resets it. A client that never authenticates is therefore
disconnected even if it sends PINGs.

In Pulsar: `ServerCnx.State`, `common/protocol/PulsarHandler.java`.
"""

from collections.abc import Collection, Mapping
from enum import Enum, auto

from labkit.system.model.proto.pulsar_pb2 import BaseCommand


class ConnectionState(Enum):
    AWAITS_CONNECT = auto()
    CONNECTED = auto()
    CHALLENGED = auto()
    """The client's token has expired, and the broker has asked for a new one."""
    REJECTED = auto()
    CLOSED = auto()


_ALL_BUT_CONNECT = frozenset(BaseCommand.Type.values()) - {BaseCommand.CONNECT}

ALLOWED_COMMANDS: Mapping[ConnectionState, Collection[int]] = {
    ConnectionState.AWAITS_CONNECT: {BaseCommand.CONNECT, BaseCommand.PING},
    ConnectionState.CONNECTED: _ALL_BUT_CONNECT,
    ConnectionState.CHALLENGED: _ALL_BUT_CONNECT,
    ConnectionState.REJECTED: {
        BaseCommand.PING,
        BaseCommand.PONG,
        BaseCommand.LOOKUP,
        BaseCommand.PARTITIONED_METADATA,
    },
    ConnectionState.CLOSED: (),
}


class Liveness(Enum):
    HEARD = auto()
    QUIET = auto()
    """The client has sent nothing since the last check."""
    PINGED = auto()
    """The client has sent nothing since the last PING."""
