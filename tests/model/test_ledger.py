from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.model.entry import DigestType
from labkit.model.errors import BKIncorrectParameterException, BKMetadataSerializationException
from labkit.model.ledger import (
    LedgerMetadata,
    LedgerState,
    Segment,
    check_quorums,
    decode_ledger_metadata,
    encode_ledger_metadata,
)

A, B, C, D = (f"192.0.2.{i}:3181" for i in (1, 2, 3, 4))
OPEN = LedgerMetadata(3, 2, 2, (Segment(0, (A, B, C)),), c_token=42)
OPEN_BYTES = bytes.fromhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a4f08"
    "021003180020ffffffffffffffffff01280132320a0e3139322e302e322e313a"
    "333138310a0e3139322e302e322e323a333138310a0e3139322e302e322e333a"
    "333138311000380342004802602a"
)
CLOSED = replace(
    OPEN.closed(last_entry_id=2, length=15), segments=(*OPEN.segments, Segment(2, (A, D, C)))
)
CLOSED_BYTES = bytes.fromhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a7a08"
    "021003180f2002280332320a0e3139322e302e322e313a333138310a0e313932"
    "2e302e322e323a333138310a0e3139322e302e322e333a33313831100032320a"
    "0e3139322e302e322e313a333138310a0e3139322e302e322e343a333138310a"
    "0e3139322e302e322e333a3331383110023803420048026000"
)


@st.composite
def ledgers(draw: st.DrawFn) -> LedgerMetadata:
    quorums = sorted(draw(st.tuples(*[st.integers(1, 6)] * 3)), reverse=True)
    ensembles = st.lists(
        st.text(min_size=1, max_size=8), min_size=quorums[0], max_size=quorums[0]
    ).map(tuple)
    firsts = draw(st.sets(st.integers(1, 2**62), max_size=3))
    metadata = LedgerMetadata(
        *quorums,
        tuple(Segment(first, draw(ensembles)) for first in (0, *sorted(firsts))),
        draw(st.sampled_from(DigestType)),
        draw(st.binary(max_size=8)),
        draw(st.sampled_from([LedgerState.OPEN, LedgerState.IN_RECOVERY])),
        custom_metadata=tuple(
            sorted(draw(st.dictionaries(st.text(), st.binary(), max_size=3)).items())
        ),
        c_token=draw(st.integers(0, 2**63 - 1)),
    )
    if draw(st.booleans()):
        return metadata.closed(draw(st.integers(-1, 2**62)), draw(st.integers(0, 2**62)))
    return metadata


@pytest.mark.parametrize(
    ("metadata", "expected"), [(OPEN, OPEN_BYTES), (CLOSED, CLOSED_BYTES)], ids=["open", "closed"]
)
def test_metadata_has_bookkeepers_bytes(metadata: LedgerMetadata, expected: bytes) -> None:
    assert encode_ledger_metadata(metadata) == expected
    assert decode_ledger_metadata(expected) == metadata


def test_closing_drops_the_creation_token() -> None:
    assert OPEN.closed(0, 5).c_token == 0


@given(ledgers())
def test_metadata_survives_encoding(metadata: LedgerMetadata) -> None:
    assert decode_ledger_metadata(encode_ledger_metadata(metadata)) == metadata


@pytest.mark.parametrize("data", [OPEN_BYTES, CLOSED_BYTES], ids=["open", "closed"])
def test_metadata_cut_short_anywhere_is_refused(data: bytes) -> None:
    for size in range(len(data)):
        with pytest.raises(BKMetadataSerializationException):
            decode_ledger_metadata(data[:size])


@given(position=st.integers(0, len(CLOSED_BYTES) - 1), byte=st.integers(0, 255))
def test_damaged_metadata_is_refused_or_keeps_the_rules(position: int, byte: int) -> None:
    damaged = bytearray(CLOSED_BYTES)
    damaged[position] = byte
    try:
        metadata = decode_ledger_metadata(bytes(damaged))
    except BKMetadataSerializationException:
        return
    check_quorums(metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum)
    assert all(len(s.ensemble) == metadata.ensemble_size for s in metadata.segments)
    assert metadata.ensemble_at(0) == metadata.segments[0].ensemble


@given(st.binary(max_size=60))
def test_bytes_that_are_no_metadata_are_refused(data: bytes) -> None:
    for prefix in (b"", b"BookieMetadataFormatVersion\t3\n"):
        with pytest.raises(BKMetadataSerializationException):
            decode_ledger_metadata(prefix + data)


def test_another_format_version_is_refused_by_name() -> None:
    with pytest.raises(BKMetadataSerializationException, match="only format version 3 is read"):
        decode_ledger_metadata(b"BookieMetadataFormatVersion\t2\nquorumSize: 2\n")


@pytest.mark.parametrize(
    "broken",
    [
        replace(OPEN, segments=()),
        replace(OPEN, segments=(Segment(1, (A, B, C)),)),
        replace(OPEN, segments=(Segment(0, (A, B)),)),
        replace(OPEN, segments=(Segment(0, (A, B, C)), Segment(0, (A, B, D)))),
        replace(OPEN, write_quorum=4),
        replace(OPEN, ack_quorum=3),
    ],
)
def test_metadata_that_breaks_the_invariants_is_refused(broken: LedgerMetadata) -> None:
    with pytest.raises(BKMetadataSerializationException, match="damaged"):
        decode_ledger_metadata(encode_ledger_metadata(broken))


def test_length_and_last_entry_count_only_once_closed() -> None:
    claims_an_end = replace(OPEN, last_entry_id=7, length=70)
    assert decode_ledger_metadata(encode_ledger_metadata(claims_an_end)) == OPEN


def test_an_entry_belongs_to_the_last_segment_that_begins_at_or_before_it() -> None:
    assert [CLOSED.ensemble_at(i)[1] for i in range(4)] == [B, B, D, D]


@pytest.mark.parametrize("quorums", [(3, 2, 2), (1, 1, 1), (5, 5, 5), (4, 3, 2)])
def test_falling_quorums_are_allowed(quorums: tuple[int, int, int]) -> None:
    check_quorums(*quorums)


@pytest.mark.parametrize("quorums", [(2, 3, 2), (3, 2, 3), (3, 2, 0), (0, 0, 0), (-1, -1, -1)])
def test_other_quorums_are_refused_with_what_is_allowed(quorums: tuple[int, int, int]) -> None:
    with pytest.raises(BKIncorrectParameterException, match="allowed is ensemble size >="):
        check_quorums(*quorums)
