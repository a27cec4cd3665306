from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.model.entry import DigestType
from labkit.system.model.errors import (
    BKIncorrectParameterException,
    BKMetadataSerializationException,
)
from labkit.system.model.ledger import (
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

WITH_ALL = LedgerMetadata(
    3,
    2,
    2,
    (Segment(0, (A, B, "b-3")), Segment(2, (A, "b-4", "b-3"))),
    DigestType.CRC32C,
    b'p\x00"\x07\n\xff',
    custom_metadata=(("owner", b"\x00\x01x"),),
    c_token=42,
    ctime_ms=1700000000000,
)
VERSION_2 = replace(WITH_ALL, format_version=2, c_token=0)
VERSION_1 = LedgerMetadata(3, 2, 2, WITH_ALL.segments, has_password=False, format_version=1)
STATES = (LedgerState.OPEN, LedgerState.IN_RECOVERY, LedgerState.CLOSED)
VERSION_1_BODY = "2\n3\n{}\n0\t192.0.2.1:3181\t192.0.2.2:3181\tb-3\n2\t192.0.2.1:3181\tb-4\tb-3\n{}"
VERSION_2_BODY = r"""quorumSize: 2
ensembleSize: 3
length: {}
lastEntryId: {}
state: {}
segment {{
  ensembleMember: "192.0.2.1:3181"
  ensembleMember: "192.0.2.2:3181"
  ensembleMember: "b-3"
  firstEntryId: 0
}}
segment {{
  ensembleMember: "192.0.2.1:3181"
  ensembleMember: "b-4"
  ensembleMember: "b-3"
  firstEntryId: 2
}}
digestType: CRC32C
password: "p\000\"\{}\n\377"
ackQuorumSize: 2
ctime: 1700000000000
customMetadata {{
  key: "owner"
  value: "\000\001x"
}}
"""
VERSION_3_CLOSED = (
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a7408"
    "021003180f2002280332270a0e3139322e302e322e313a333138310a0e313932"
    "2e302e322e323a333138310a03622d331000321c0a0e3139322e302e322e313a"
    "333138310a03622d340a03622d33100238034206700022070aff48025080d095"
    "ffbc315a0c0a056f776e65721203000178602a"
)


def in_state(metadata: LedgerMetadata, state: LedgerState) -> LedgerMetadata:
    """Return the metadata in that state; a closed ledger has 3 entries with 15 bytes in total."""
    if state is LedgerState.CLOSED:
        return replace(metadata, state=state, last_entry_id=2, length=15)
    return replace(metadata, state=state)


def of_version(version: int, body: str) -> bytes:
    return f"BookieMetadataFormatVersion\t{version}\n{body}".encode()


@st.composite
def ledgers(draw: st.DrawFn) -> LedgerMetadata:
    ack_quorum, write_quorum, ensemble_size = sorted(draw(st.tuples(*[st.integers(1, 6)] * 3)))
    ensembles = st.lists(
        st.text(min_size=1, max_size=8), min_size=ensemble_size, max_size=ensemble_size
    ).map(tuple)
    firsts = draw(st.sets(st.integers(1, 2**62), max_size=3))
    metadata = LedgerMetadata(
        ensemble_size,
        write_quorum,
        ack_quorum,
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


@given(ledgers())
def test_metadata_survives_encoding(metadata: LedgerMetadata) -> None:
    assert decode_ledger_metadata(encode_ledger_metadata(metadata)) == metadata


@pytest.mark.parametrize("data", [OPEN_BYTES, CLOSED_BYTES], ids=["open", "closed"])
def test_metadata_cut_short_anywhere_is_rejected(data: bytes) -> None:
    for size in range(len(data)):
        with pytest.raises(BKMetadataSerializationException):
            decode_ledger_metadata(data[:size])


@given(position=st.integers(0, len(CLOSED_BYTES) - 1), byte=st.integers(0, 255))
def test_damaged_metadata_is_rejected_or_keeps_the_rules(position: int, byte: int) -> None:
    damaged = bytearray(CLOSED_BYTES)
    damaged[position] = byte
    try:
        metadata = decode_ledger_metadata(bytes(damaged))
    except BKMetadataSerializationException:
        return
    check_quorums(metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum)
    assert all(len(s.ensemble) == metadata.ensemble_size for s in metadata.segments)
    assert metadata.ensemble_at(0) == metadata.segments[0].ensemble


@pytest.mark.parametrize(
    ("state", "length", "end"),
    list(zip(STATES, (0, 0, 15), ("", "-102\tCLOSED", "2\tCLOSED"), strict=True)),
)
def test_version_1_is_the_text_that_bookkeeper_writes(
    state: LedgerState, length: int, end: str
) -> None:
    data = of_version(1, VERSION_1_BODY.format(length, end))
    assert decode_ledger_metadata(data) == in_state(VERSION_1, state)
    assert encode_ledger_metadata(in_state(VERSION_1, state)) == data


@pytest.mark.parametrize(
    ("state", "length", "last"), list(zip(STATES, (0, 0, 15), (-1, -1, 2), strict=True))
)
def test_version_2_is_the_text_that_bookkeeper_writes(
    state: LedgerState, length: int, last: int
) -> None:
    def text(bell: str) -> bytes:
        return of_version(2, VERSION_2_BODY.format(length, last, state.name, bell))

    metadata = in_state(VERSION_2, state)
    # Java's protobuf writes the bell character as "a", Python's as a number; both can read either
    # form.
    assert decode_ledger_metadata(text("a")) == metadata
    assert encode_ledger_metadata(metadata) == text("007")


def test_version_3_with_all_that_a_ledger_can_have_has_bookkeepers_bytes() -> None:
    metadata = in_state(WITH_ALL, LedgerState.CLOSED)
    assert encode_ledger_metadata(metadata).hex() == VERSION_3_CLOSED
    assert decode_ledger_metadata(bytes.fromhex(VERSION_3_CLOSED)) == metadata


def test_version_1_ends_with_or_without_a_line_end() -> None:
    ended = of_version(1, VERSION_1_BODY.format(0, ""))
    assert decode_ledger_metadata(ended[:-1]) == decode_ledger_metadata(ended) == VERSION_1


def test_ledger_without_a_password_stays_without() -> None:
    data = encode_ledger_metadata(replace(OPEN, has_password=False))
    metadata = decode_ledger_metadata(data)
    assert not metadata.has_password
    assert encode_ledger_metadata(metadata) == data


@pytest.mark.promise(
    "Metadata versions 1 to 3 are read; a change keeps the version; the opener provides what "
    "version 1 lacks"
)
def test_change_keeps_the_format_version() -> None:
    for metadata in (VERSION_1, VERSION_2, WITH_ALL):
        data = encode_ledger_metadata(metadata.closed(2, 15))
        assert decode_ledger_metadata(data).format_version == metadata.format_version


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"2\n3\n0\n",
        b"BookieMetadataFormatVersion\t3",
        b"BookieMetadataFormatVersion\t0\n",
        b"BookieMetadataFormatVersion\t4\n",
    ],
)
def test_unknown_format_version_is_rejected_by_name(data: bytes) -> None:
    with pytest.raises(BKMetadataSerializationException, match="expected format version 1, 2 or 3"):
        decode_ledger_metadata(data)


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (1, "2\n3\n"),
        (1, "2\n3\n0\n"),
        (1, "2\n3\n0\n0\ta\tb\n"),
        (1, "2\n3\n0\n\n0\ta\tb\tc\n"),
        (1, "2\n3\nmany\n0\ta\tb\tc\n"),
        (2, "quorumSize: 2\n"),
        (2, "quorumSize: 2 no_such_field: 1"),
        (2, "\x00"),
    ],
)
def test_damaged_text_is_rejected(version: int, body: str) -> None:
    with pytest.raises(BKMetadataSerializationException, match="damaged"):
        decode_ledger_metadata(of_version(version, body))


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
def test_metadata_that_breaks_the_invariants_is_rejected(broken: LedgerMetadata) -> None:
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
def test_other_quorums_are_rejected_with_what_is_allowed(quorums: tuple[int, int, int]) -> None:
    with pytest.raises(BKIncorrectParameterException, match="expected ensemble_size >="):
        check_quorums(*quorums)
