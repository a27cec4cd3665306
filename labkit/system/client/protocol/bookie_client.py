"""A client's connection pool: one channel per bookie and protocol version, created on first use.

In BookKeeper: `proto/BookieClientImpl.java`. There, all channels use the same protocol version, and
a client can open several channels to a bookie.
"""

from labkit.system.client.protocol.per_channel_bookie_client import FindEndpoint
from labkit.system.client.protocol.protocol_v2 import PerChannelBookieClientV2
from labkit.system.client.protocol.protocol_v3 import PerChannelBookieClientV3
from labkit.system.model.net import Network


class BookieClient:
    def __init__(self, network: Network, find_endpoint: FindEndpoint, timeout_s: float) -> None:
        self._arguments = network, find_endpoint, timeout_s
        self._v2: dict[str, PerChannelBookieClientV2] = {}
        self._v3: dict[str, PerChannelBookieClientV3] = {}
        self._is_closed = False

    def get(self, bookie: str) -> PerChannelBookieClientV2:
        if bookie not in self._v2:
            self._v2[bookie] = PerChannelBookieClientV2(bookie, *self._arguments)
            if self._is_closed:
                self._v2[bookie].close()
        return self._v2[bookie]

    def get_v3(self, bookie: str) -> PerChannelBookieClientV3:
        """Return the channel for requests that version 2 does not support.

        The first frame on a connection determines its protocol version, so this channel needs
        a connection of its own.
        """
        if bookie not in self._v3:
            self._v3[bookie] = PerChannelBookieClientV3(bookie, *self._arguments)
            if self._is_closed:
                self._v3[bookie].close()
        return self._v3[bookie]

    def close(self) -> None:
        """Fail all pending and future requests."""
        self._is_closed = True
        for channel in (*self._v2.values(), *self._v3.values()):
            channel.close()
