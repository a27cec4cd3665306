"""What brokers write of themselves into the metadata store, and how others read it."""

import json

import pytest

from labkit.system.topic.ownership import (
    BrokerAddress,
    NamespaceBundle,
    bundle_of,
    decode_broker,
    decode_owner,
    encode_broker,
    encode_owner,
)

PLAIN = BrokerAddress("a:8080", "pulsar://a:6650", web_url="http://a:8080")
FULL = BrokerAddress(
    "a:8080", "pulsar://a:6650", "pulsar+ssl://a:6651", "http://a:8080", "https://a:8443"
)


def test_broker_announces_where_it_listens_and_that_its_topics_persist() -> None:
    assert json.loads(encode_broker(PLAIN)) == {
        "webServiceUrl": "http://a:8080",
        "pulsarServiceUrl": "pulsar://a:6650",
        "persistentTopicsEnabled": True,
        "nonPersistentTopicsEnabled": False,
    }
    assert json.loads(encode_broker(FULL)) == {
        "webServiceUrl": "http://a:8080",
        "webServiceUrlTls": "https://a:8443",
        "pulsarServiceUrl": "pulsar://a:6650",
        "pulsarServiceUrlTls": "pulsar+ssl://a:6651",
        "persistentTopicsEnabled": True,
        "nonPersistentTopicsEnabled": False,
    }


def test_owner_is_written_with_all_its_urls_and_whether_it_gives_the_bundle_up() -> None:
    assert json.loads(encode_owner(FULL, disabled=True)) == {
        "nativeUrl": "pulsar://a:6650",
        "nativeUrlTls": "pulsar+ssl://a:6651",
        "httpUrl": "http://a:8080",
        "httpUrlTls": "https://a:8443",
        "disabled": True,
        "advertisedListeners": {},
    }


@pytest.mark.parametrize("address", [PLAIN, FULL])
@pytest.mark.parametrize("disabled", [False, True])
def test_each_url_comes_back_as_what_it_was(address: BrokerAddress, disabled: bool) -> None:
    assert decode_broker("a:8080", encode_broker(address)) == address
    assert decode_owner(encode_owner(address, disabled=disabled)) == (address, disabled)


@pytest.mark.parametrize(
    ("urls", "broker_id"),
    [
        (("pulsar://s:1", "pulsar+ssl://s:2", "http://w:3", "https://w:4"), "w:3"),
        (("pulsar://s:1", "pulsar+ssl://s:2", "", "https://w:4"), "w:4"),
        (("pulsar://s:1", "pulsar+ssl://s:2", "", ""), "s:1"),
        (("", "pulsar+ssl://s:2", "", ""), "s:2"),
        (("", "", "", ""), ""),
    ],
)
def test_owner_is_named_by_its_http_address_or_else_by_another_one(
    urls: tuple[str, str, str, str], broker_id: str
) -> None:
    owner, _ = decode_owner(encode_owner(BrokerAddress("", *urls)))
    assert owner == BrokerAddress(broker_id, *urls)


def test_url_that_is_null_or_missing_is_empty() -> None:
    assert decode_owner(b'{"nativeUrl": null}') == (BrokerAddress("", ""), False)
    assert decode_broker("a:1", b"{}") == BrokerAddress("a:1", "")


def test_bundles_cover_the_ring_and_the_last_one_has_its_end() -> None:
    bundles = {bundle_of(f"persistent://t/n/{number}") for number in range(100)}
    quarter = 0x4000_0000
    assert sorted(bundles) == [
        NamespaceBundle("t/n", at * quarter, min((at + 1) * quarter, 0xFFFF_FFFF))
        for at in range(4)
    ]
