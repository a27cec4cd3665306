"""The pool of a client's connections to bookies: one for each bookie and version of the protocol.

In BookKeeper: `proto/BookieClientImpl.java`, which has several connections for each bookie and one
version.
"""

from labkit.system.client.protocol.per_channel_bookie_client import FindEndpoint
from labkit.system.client.protocol.protocol_v2 import PerChannelBookieClientV2
from labkit.system.client.protocol.protocol_v3 import PerChannelBookieClientV3
from labkit.system.model.net import Network


class BookieClient:
    """The connections to all bookies that a client has met."""

    def __init__(self, network: Network, find_endpoint: FindEndpoint, timeout_s: float) -> None:
        self._network = network
        self._find_endpoint = find_endpoint
        self._timeout_s = timeout_s
        self._v2: dict[str, PerChannelBookieClientV2] = {}
        self._v3: dict[str, PerChannelBookieClientV3] = {}

    def get(self, bookie: str) -> PerChannelBookieClientV2:
        """The connection for adds and reads."""
        client = self._v2.get(bookie)
        if client is None:
            parts = self._network, self._find_endpoint, self._timeout_s
            client = self._v2[bookie] = PerChannelBookieClientV2(bookie, *parts)
        return client

    def get_v3(self, bookie: str) -> PerChannelBookieClientV3:
        """The connection for requests that version 2 does not have.

        A separate one: a bookie recognises the version by a connection's first frame.
        """
        client = self._v3.get(bookie)
        if client is None:
            parts = self._network, self._find_endpoint, self._timeout_s
            client = self._v3[bookie] = PerChannelBookieClientV3(bookie, *parts)
        return client

    def close(self) -> None:
        """Close all connections, and give up what was asked on them."""
        for client in (*self._v2.values(), *self._v3.values()):
            client.close()
