"""A broker's HTTP port handles untrusted clients over TCP; the broker keeps its data in memory."""

import asyncio
import json
import struct
from contextlib import suppress

import pytest
from tornado.netutil import bind_sockets

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.schemas.registry import Schemas
from labkit.system.broker.schemas.storage import LocatedVersions, SchemaStorage, StoredSchema
from labkit.system.metadata.registration import register_bookie
from labkit.system.metadata.store import ANY_VERSION
from labkit.system.model.proto.pulsar_pb2 import Schema, ServerError
from labkit.system.topic.names import MAX_NAME_BYTES
from labkit.worlds.live.admin import server as server_module
from labkit.worlds.live.admin.http import MAX_BODY_BYTES, MAX_URI_BYTES
from labkit.worlds.live.admin.server import MAX_CONNECTIONS, admin_server
from labkit.worlds.live.host.ports import LOOPBACK
from labkit.worlds.live.peer_log import PeerLog
from tests.system.topic.clients import NOW_MS, PlayedClient
from tests.until import until
from tests.worlds.live.admin_site import TIMEOUT_S, Site

PARTITIONS = "/admin/v2/persistent/t/n/x/partitions"
RETENTION = "/admin/v2/namespaces/t/n/retention"
HUGE_RETENTION = b'{"retentionTimeInMinutes": 99999999999999999999, "retentionSizeInMB": 1}'
SCHEMA = "/admin/v2/schemas/t/n/x/schema"


async def test_a_request_within_the_bounds_is_granted(site: Site) -> None:
    assert await site.say("PUT", PARTITIONS, b"10000") == 204
    assert await site.say("GET", PARTITIONS) == 200
    assert site.lines == []


@pytest.mark.promise("HTTP requests, schemas and acknowledgements have size limits")
@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", PARTITIONS, b"10001", 406),
        ("PUT", PARTITIONS, b"1000000000", 406),
        ("PUT", PARTITIONS, b"9" * 5000, 400),
        ("PUT", PARTITIONS, b"[" * 100_000, 400),
        ("PUT", PARTITIONS, b"[" * MAX_BODY_BYTES, 400),
        ("PUT", PARTITIONS, b" " * MAX_BODY_BYTES + b"4", 413),
        ("PUT", PARTITIONS, bytes(20 * MAX_BODY_BYTES), 413),
        ("POST", "/nowhere", bytes(20 * MAX_BODY_BYTES), 413),
        ("PUT", "/admin/v2/persistent/%2E%2E/n/x/partitions", b"4", 412),
        ("PUT", "/admin/v2/persistent/../n/x/partitions", b"4", 412),
        ("PUT", "/admin/v2/persistent/t/%2e/x/partitions", b"4", 412),
        ("PUT", "/admin/v2/persistent/t/n/../partitions", b"4", 412),
        ("PUT", f"/admin/v2/persistent/t/n/{'x' * MAX_NAME_BYTES}/partitions", b"4", 412),
        ("PUT", f"/admin/v2/persistent/t/n/{'x' * MAX_URI_BYTES}/partitions", b"4", 414),
        ("GET", "/admin/v2/persistent/t/..", b"", 412),
        ("GET", "/admin/v2/namespaces/../n/retention", b"", 412),
        ("POST", "/admin/v2/namespaces/t/n%00/deduplication", b"true", 412),
        ("POST", "/admin/v2/namespaces/t/n/permissions/r", b'["\\ud800"]', 400),
        ("POST", SCHEMA, b'{"type":"STRING","schema":"\\ud800"}', 400),
        ("POST", SCHEMA, b'{"type":[],"schema":""}', 400),
        ("POST", SCHEMA, b'{"type":"STRING","schema":"","properties":["a"]}', 400),
        ("POST", SCHEMA, b'{"type":"STRING","schema":"","properties":"a"}', 400),
        ("GET", f"{SCHEMA}/{'9' * 19}", b"", 404),
        ("GET", f"{SCHEMA}/999999999999999999", b"", 404),
        ("GET", f"{PARTITIONS}?checkAllowAutoCreation=%ff%fe", b"", 404),
        ("POST", RETENTION, b'{"retentionTimeInMinutes": 1e30, "retentionSizeInMB": 1}', 400),
        ("POST", RETENTION, HUGE_RETENTION, 400),
    ],
)
async def test_what_a_stranger_may_not_send_is_refused_in_one_line(
    site: Site, method: str, path: str, body: bytes, status: int
) -> None:
    assert await site.say(method, path, body) == status
    [line] = site.lines
    assert str(status) in line
    assert "\n" not in line
    assert len(line) < 1000
    assert await site.broker.store.exists("/admin/partitioned-topics") is False


async def test_a_chunked_body_has_the_same_bound(site: Site) -> None:
    chunk = b"100000\r\n" + bytes(0x100000) + b"\r\n"
    body = chunk * 3 + b"0\r\n\r\n"
    chunked = {"Content_Length": "", "Transfer_Encoding": "chunked"}
    assert await site.say("PUT", PARTITIONS, body, **chunked) == 413


async def test_partitions_of_a_topic_are_deleted_however_many_its_node_says(site: Site) -> None:
    node = "/admin/partitioned-topics/t/n/persistent/x"
    await site.broker.store.create(node, json.dumps({"partitions": 1_000_000_000}).encode())
    assert await site.say("DELETE", PARTITIONS) == 204
    assert await site.say("GET", PARTITIONS) == 404


async def test_a_node_that_would_be_too_large_is_not_written(site: Site) -> None:
    large = b'{"x": "' + b"x" * 999_000 + b'"}'
    await site.broker.store.set("/admin/policies/t/n", large, ANY_VERSION)
    path = f"/admin/v2/namespaces/t/n/permissions/{'r' * 2000}"
    assert await site.say("POST", path, b'["produce"]') == 413


async def test_a_client_that_is_slow_with_a_request_is_disconnected(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "PATIENCE_S", 0.1)
    [socket] = bind_sockets(0, LOOPBACK)
    server = admin_server(site.broker, PeerLog("broker-1", lambda: 0.0, site.lines.append))
    server.add_sockets([socket])
    begun = [b"GET /admin", b"PUT / HTTP/1.1\r\nContent-Length: 10\r\n\r\n4", b""]
    for beginning in begun:
        reader, writer = await asyncio.open_connection(LOOPBACK, socket.getsockname()[1])
        writer.write(beginning)
        async with asyncio.timeout(TIMEOUT_S):
            await reader.read()
        writer.close()
    server.stop()


async def begun(site: Site, count: int, beginning: bytes) -> list[asyncio.StreamReader]:
    """Open connections one after another, each of which sends only this beginning of a request."""
    readers = []
    for _ in range(count):
        reader, writer = await site.connect()
        writer.write(beginning)
        readers.append(reader)
    return readers


async def test_unfinished_requests_lock_nobody_out(site: Site) -> None:
    readers = await begun(site, MAX_CONNECTIONS, b"GET /admin/v2/brokers HTTP/1.1\r\nHost: loc")
    assert await site.say("GET", "/admin/v2/brokers") == 200
    async with asyncio.timeout(TIMEOUT_S):
        assert await readers[0].read() == b""
    assert not any(reader.at_eof() for reader in readers[2:])


async def test_an_idle_connection_makes_room_when_none_is_silent(site: Site) -> None:
    request = f"GET /admin/v2/brokers HTTP/1.1\r\nHost: {LOOPBACK}\r\n\r\n".encode()
    readers = await begun(site, MAX_CONNECTIONS, request)
    async with asyncio.timeout(TIMEOUT_S):
        for reader in readers:
            await reader.readuntil(b'8080"]')
        assert await site.say("GET", "/admin/v2/brokers") == 200
        assert await readers[0].read() == b""
    assert not any(reader.at_eof() for reader in readers[2:])


async def test_a_request_that_is_being_served_is_not_displaced(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, under_way = asyncio.Event(), []

    async def find(*_: object) -> None:
        under_way.append(1)
        await goes_on.wait()
        raise BrokerError(ServerError.TopicNotFound, "no schema")

    monkeypatch.setattr(site.broker.schemas, "find", find)
    request = f"GET {SCHEMA} HTTP/1.1\r\nHost: {LOOPBACK}\r\n\r\n".encode()
    readers = await begun(site, MAX_CONNECTIONS, request)
    await until(lambda: len(under_way) == MAX_CONNECTIONS)
    [dropped] = await begun(site, 1, request)
    async with asyncio.timeout(TIMEOUT_S):
        with suppress(ConnectionError):
            assert await dropped.read() == b""
        goes_on.set()
        for reader in readers:
            assert b"no schema" in await reader.readuntil(b"}")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 204),
        ({"Host": "localhost"}, 204),
        ({"Host": "[::1]:8080"}, 204),
        ({"Host": "127.0.0.2:8080"}, 204),
        ({"Host": "LOCALHOST:8080"}, 204),
        ({"Host": "localhost:8080", "Origin": "http://localhost:8080"}, 204),
        ({"Sec_Fetch_Site": "same-origin"}, 204),
        ({"Sec_Fetch_Site": "none"}, 204),
        ({"Content_Type": "application/json; charset=utf-8"}, 204),
        ({"Content_Type": "application/vnd.partitioned-topic-metadata+json"}, 204),
        ({"Host": "strange.example:8080"}, 403),
        ({"Host": "127.0.0.1.strange.example"}, 403),
        ({"Origin": "http://strange.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[strange"}, 403),
        ({"Host": "localhost:8080", "Origin": "http://localhost:3000"}, 403),
        ({"Host": "strange.example", "Origin": "http://strange.example"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Content_Type": ""}, 415),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content_Type": "multipart/form-data; boundary=json"}, 415),
        ({"Content_Type": "text/plain;application/json"}, 415),
    ],
)
async def test_a_page_of_another_site_changes_nothing(
    site: Site, headers: dict[str, str], status: int
) -> None:
    found, _, answer = await site.ask("PUT", PARTITIONS, b"4", **headers)
    assert (found, "reason" in answer) == (status, status != 204)
    is_made = await site.say("GET", PARTITIONS) == 200
    assert is_made == (status == 204)


async def test_a_page_of_another_site_creates_no_topic_by_asking_for_it(site: Site) -> None:
    path = f"{PARTITIONS}?checkAllowAutoCreation=true"
    assert await site.say("GET", path, Sec_Fetch_Site="cross-site") == 403


async def test_a_broker_is_well_while_a_ledger_finds_its_bookies(site: Site) -> None:
    path = "/admin/v2/brokers/health"
    status, kind, answer = await site.ask("GET", path)
    assert (status, kind) == (503, "application/json")
    assert "only 0 bookies accept writes, but a ledger needs 2" in answer
    for name in ("b0", "b1"):
        await register_bookie(site.broker.store, name, [])
    # Pulsar's tools expect exactly this word.
    assert await site.ask("GET", path) == (200, "text/plain; charset=utf-8", "ok")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("HEAD", PARTITIONS, 501),
        ("OPTIONS", PARTITIONS, 501),
        ("PATCH", PARTITIONS, 501),
        ("TRACE", PARTITIONS, 405),
        ("OPTIONS", "/nowhere", 501),
        ("GET", "/admin/v2/persistent/t/n/%ff/partitions", 400),
        ("GET", "/admin/v2/brokers/configuration", 501),
        ("GET", "/admin/v2/brokers/leaderBroker", 501),
    ],
)
async def test_every_refusal_is_json_with_a_reason(
    site: Site, method: str, path: str, status: int
) -> None:
    found, kind, answer = await site.ask(method, path)
    assert (found, kind) == (status, "application/json")
    if method != "HEAD":
        assert json.loads(answer)["reason"]
    assert len(site.lines) == 1


@pytest.mark.parametrize("name", ["standalone", "versions", "ready-cluster"])
async def test_the_brokers_of_any_cluster_are_listed(site: Site, name: str) -> None:
    assert await site.json("GET", f"/admin/v2/brokers/{name}") == (200, ["127.0.0.1:8080"])


def schema_of(definition: str, name: str = "AVRO") -> dict[str, object]:
    return {"type": name, "schema": definition, "properties": {}}


@pytest.fixture
def ledgers(site: Site) -> PlayedClient:
    """Set up the ledger client through which the broker stores schemas."""
    client = PlayedClient()
    site.broker.schemas = Schemas(client.real, site.broker.config.managed_ledger)
    return client


@pytest.mark.parametrize(
    ("name", "number", "text"),
    [
        ("BOOLEAN", Schema.Bool, ""),
        ("KEY_VALUE", Schema.KeyValue, '{"key":"","value":""}'),
        ("LOCAL_DATE_TIME", Schema.LocalDateTime, ""),
        ("INT32", Schema.Int32, ""),
        ("AVRO", Schema.Avro, '"int"'),
    ],
)
async def test_types_of_schemas_have_the_names_of_pulsars_tools(
    site: Site, ledgers: PlayedClient, name: str, number: "Schema.Type", text: str
) -> None:
    assert (await site.json("POST", SCHEMA, schema_of(text, name)))[0] == 200
    stored = await site.broker.schemas.get("persistent://t/n/x")
    assert stored.schema.type == number
    assert (await site.json("GET", SCHEMA))[1]["type"] == name


async def test_a_schema_of_keys_and_values_is_a_document_over_http(
    site: Site, ledgers: PlayedClient
) -> None:
    key = json.dumps({"type": "record", "name": "K", "fields": [], "doc": "k" * 200})
    value = json.dumps({"type": "record", "name": "V", "fields": []})
    stored = Schema(name="x", type=Schema.KeyValue)
    stored.schema_data = b"".join(
        struct.pack(">i", len(each)) + each.encode() for each in (key, value)
    )
    await site.broker.schemas.register("persistent://t/n/x", stored)
    data = (await site.json("GET", SCHEMA))[1]["data"]
    assert json.loads(data) == {"key": json.loads(key), "value": json.loads(value)}
    other = SCHEMA.replace("/x/", "/y/")
    assert (await site.json("POST", other, schema_of(data, "KEY_VALUE")))[0] == 200
    again = await site.broker.schemas.get("persistent://t/n/y")
    parts = again.schema.schema_data.partition(b'{"type":"record","name":"V"')
    assert parts[0][:4] == struct.pack(">i", len(parts[0]) - 8)


@pytest.mark.parametrize("data", [b"", b"\xa4", b"\0\0\0\xa4{", b"\0\0\0\1{\0\0\0\1}", b"\xff" * 8])
async def test_any_bytes_that_are_stored_as_a_schema_can_be_shown(
    site: Site, ledgers: PlayedClient, data: bytes
) -> None:
    schema = Schema(name="x", type=Schema.KeyValue, schema_data=data)
    storage = SchemaStorage(ledgers.real, site.broker.config.managed_ledger)
    await storage.append("t/n/x", LocatedVersions(), StoredSchema(schema, 0))
    assert await site.say("GET", SCHEMA) == 200


@pytest.mark.parametrize("text", ["", "7", "[]", "{}", '{"key": 1}', "[" * 100_000])
async def test_what_does_not_fit_the_type_of_keys_and_values_is_refused(
    site: Site, text: str
) -> None:
    assert (await site.json("POST", SCHEMA, schema_of(text, "KEY_VALUE")))[0] == 400


async def test_the_paths_for_schemas_answer_with_pulsars_json(
    site: Site, ledgers: PlayedClient
) -> None:
    plain, other = schema_of("", "STRING"), schema_of("", "INT32")
    found = {"version": 0, "type": "STRING", "timestamp": NOW_MS, "data": "", "properties": {}}
    index = {"ledgerId": 1, "entryId": 0, "version": 0}
    fits = {"compatibility": True, "schemaCompatibilityStrategy": "FULL"}
    for method, path, body, answer in (
        ("GET", "schemas", None, {"getSchemaResponses": []}),
        ("DELETE", "schema", None, {"version": -1}),
        ("POST", "schema", plain, {"version": {"version": 0}}),
        ("GET", "schema", None, found),
        ("GET", "schema/0", None, found),
        ("GET", "schemas", None, {"getSchemaResponses": [found]}),
        ("GET", "metadata", None, {"info": index, "index": [index]}),
        ("POST", "version", plain, {"version": 0}),
        ("POST", "version", other, {"version": -1}),
        ("POST", "compatibility", plain, fits),
        ("POST", "compatibility", other, "expected type STRING, got INT32"),
        ("POST", "schema", other, "expected type STRING, got INT32"),
        ("DELETE", "schema", None, {"version": 1}),
        ("GET", "schema", None, 404),
        ("GET", "schema/0", None, 404),
        ("POST", "schema", other, {"version": {"version": 2}}),
        ("DELETE", "schema?force=true", None, {"version": -1}),
        ("POST", "schema", other, {"version": {"version": 0}}),
    ):
        status, said = await site.json(method, f"/admin/v2/schemas/t/n/x/{path}", body)
        if isinstance(answer, dict):
            assert (status, said) == (200, answer)
        elif isinstance(answer, str):
            assert (status, answer in said["reason"]) == (409, True)
        else:
            assert status == answer


@pytest.mark.parametrize("definition", ['"hello"', '""', "", "["])
async def test_garbage_is_refused_as_a_definition(
    site: Site, ledgers: PlayedClient, definition: str
) -> None:
    for path in (SCHEMA, "/admin/v2/schemas/t/n/x/compatibility"):
        assert (await site.json("POST", path, schema_of(definition)))[0] == 422
    assert ledgers.ledgers == {}


async def test_a_namespaces_policies_for_schemas_are_read_and_set(site: Site) -> None:
    path = "/admin/v2/namespaces/t/n/"
    strategy = f"{path}schemaCompatibilityStrategy"
    assert await site.json("GET", strategy) == (200, "UNDEFINED")
    assert await site.json("PUT", strategy, "FORWARD") == (204, None)
    assert await site.json("GET", strategy) == (200, "FORWARD")
    assert (await site.json("PUT", strategy, "SIDEWAYS"))[0] == 400
    for key, default in (("isAllowAutoUpdateSchema", True), ("schemaValidationEnforced", False)):
        assert await site.json("GET", path + key) == (200, default)
        assert await site.json("POST", path + key, not default) == (204, None)
        assert await site.json("GET", path + key) == (200, not default)
        assert (await site.json("POST", path + key, 1))[0] == 400


async def test_an_unforeseen_error_is_one_line_with_its_place(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(site.broker.schemas, "find", fail)
    assert await site.json("GET", SCHEMA) == (500, {"reason": "Internal Server Error"})
    [line] = site.lines
    assert "ZeroDivisionError('a mistake of ours') at " in line
    assert "test_server.py:" in line
