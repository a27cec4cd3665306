"""Test that every byte of a ledger's encoded metadata has exactly one name."""

from dataclasses import replace

import pytest

from labkit.system.model.errors import BKMetadataSerializationException
from labkit.system.model.ledger import LedgerMetadata, Segment, encode_ledger_metadata
from labkit.views.xray.ledger_spans import ledger_metadata_spans

METADATA = LedgerMetadata(
    3,
    2,
    2,
    (Segment(0, ("b0", "b1", "b2")), Segment(300, ("b0", "b3", "b2"))),
    password=b"pw",
    custom_metadata=(("application", b"lesson"),),
    c_token=2**40,
    ctime_ms=1_700_000_000_000,
)


@pytest.mark.parametrize("metadata", [METADATA, METADATA.closed(1000, 2**40)])
def test_every_byte_has_one_name(metadata: LedgerMetadata) -> None:
    data, at = encode_ledger_metadata(metadata), 0
    for span in ledger_metadata_spans(data):
        assert span.offset == at
        at += span.size
    assert at == len(data)


def test_values_are_the_metadatas() -> None:
    values = [(s.name, s.value) for s in ledger_metadata_spans(encode_ledger_metadata(METADATA))]
    for expected in (
        ("version", "3"),
        ("quorumSize", "2"),
        ("ensembleSize", "3"),
        ("lastEntryId", "-1"),
        ("state", "OPEN"),
        ("ensembleMember", "b3"),
        ("firstEntryId", "300"),
        ("digestType", "CRC32C"),
        ("password", "pw"),
        ("cToken", str(2**40)),
        ("value", "lesson"),
    ):
        assert expected in values
    assert [value for name, value in values if name == "ensembleMember"] == [
        *("b0", "b1", "b2"),
        *("b0", "b3", "b2"),
    ]


def test_metadata_in_text_has_no_spans() -> None:
    data = encode_ledger_metadata(replace(METADATA, format_version=2))
    with pytest.raises(BKMetadataSerializationException, match="format version 3"):
        list(ledger_metadata_spans(data))
