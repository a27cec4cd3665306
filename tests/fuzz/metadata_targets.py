"""Fuzz the decoders of the metadata store's contents, `VERSION` and `bk_server.conf`."""

import zlib

from labkit.system.metadata.cookie import Cookie
from labkit.system.metadata.ledger_layout import LAYOUTS, decode_ledger_layout
from labkit.system.metadata.racks import decode_racks
from labkit.system.metadata.registration import (
    BOOKIE_RPC,
    TRACE,
    Endpoint,
    decode_service_info,
    encode_service_info,
)
from labkit.system.model.ledger import (
    LedgerMetadata,
    Segment,
    decode_ledger_metadata,
    encode_ledger_metadata,
)
from labkit.system.topic.chain.formats import decode_chain, encode_chain
from labkit.system.topic.chain.ledger_chain import LedgerInfo
from labkit.system.topic.cursors.acknowledged import CursorState, Range
from labkit.system.topic.cursors.formats import (
    IN_NODE,
    CursorNode,
    decode_cursor_node,
    decode_position,
    encode_cursor_node,
    encode_position,
)
from labkit.worlds.live.processes.server_config import (
    ServerConfig,
    bookie_settings,
    parse_server_config,
)
from tests.fuzz.harness import Target
from tests.worlds.live.bookie_options import Options

COOKIE = Cookie("b0", "/j", ("/l1", "/l2"), "3c8c0f0e-0000-4000-8000-1234567890ab")
SEGMENTS = Segment(0, ("b1", "b2", "b3")), Segment(9, ("b1", "b4", "b3"))
METADATA = LedgerMetadata(3, 2, 2, SEGMENTS, password=b"pw", custom_metadata=(("app", b"x"),))
ENDPOINTS = [Endpoint(BOOKIE_RPC, "127.0.0.1", 3181), Endpoint(TRACE, "127.0.0.1", 3182)]
RACKS = b'{"group": {"b0": {"rack": "/rack1", "hostname": null}}, "other": {}}'
CHAIN = encode_chain([LedgerInfo(3, 7, 1000, 1_700_000_000_000), LedgerInfo(5)])
COMPRESSED = b"\x47\x78\0\0\0\x04\x08\x02\x10\x40" + zlib.compress(CHAIN)
CURSOR = CursorState((3, -1), (Range((3, 1), (3, 4)),), (((5, 2), 0b1011),), (("p", 17),))
CONF = b"""\
# a comment
bookieId=b0
metadataServiceUri=zk+hierarchical://h1:2181;h2:2181/ledgers
journalDirectories=/j1,/j2
ledgerDirectories=/l1
journalMaxSizeMB=64
journalFlushWhenQueueEmpty=false
minorCompactionThreshold=0.3
diskUsageThreshold=0.97
httpServerEnabled=false
numAddWorkerThreads=4
"""


def _conf(data: bytes) -> None:
    config: ServerConfig = parse_server_config(data, "bk_server.conf")
    bookie_settings(Options(), config)


METADATA_TARGETS = (
    Target("cookie", lambda data: Cookie.decode(data, "VERSION"), (COOKIE.encode(),)),
    Target(
        "ledger metadata",
        decode_ledger_metadata,
        (encode_ledger_metadata(METADATA), encode_ledger_metadata(METADATA.closed(12, 345))),
    ),
    Target(
        "service info",
        lambda data: decode_service_info("b0", data),
        (encode_service_info(ENDPOINTS),),
    ),
    Target(
        "ledger layout", decode_ledger_layout, tuple(layout.encode() for layout in LAYOUTS.values())
    ),
    Target("racks", decode_racks, (RACKS,)),
    Target("chain of ledgers", decode_chain, (CHAIN, COMPRESSED)),
    Target("cursor", decode_cursor_node, (encode_cursor_node(CursorNode(IN_NODE, CURSOR)),)),
    Target("position of a cursor", decode_position, tuple(encode_position(CURSOR))),
    Target("bk_server.conf", _conf, (CONF,)),
)
