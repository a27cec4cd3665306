import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.model.entry import (
    NO_ENTRY_ID,
    DigestType,
    Entry,
    decode_entry,
    decode_explicit_lac,
    encode_entry,
    encode_explicit_lac,
    make_digest,
    make_master_key,
)
from labkit.system.model.errors import BKDigestMatchException

I64 = st.integers(-(2**63), 2**63 - 1)
HEADER = "00000000000000050000000000000000ffffffffffffffff0000000000000005"
LAC_HEADER = "00000000000000050000000000000003"
HELLO = Entry(5, 0, -1, 5, b"hello")
DIGESTS = {
    DigestType.CRC32C: "b548f369",
    DigestType.CRC32: "00000000c126e452",
    DigestType.HMAC: "cd9ab81579e091b31d3228ab0862d3ef9aa86f8b",
    DigestType.DUMMY: "",
}
LAC_DIGESTS = {
    DigestType.CRC32C: "7bd17d65",
    DigestType.CRC32: "000000003f255fa0",
    DigestType.HMAC: "da56b36ea08eaaff2d87365f70fd9a15c945f44a",
    DigestType.DUMMY: "",
}


@pytest.mark.parametrize("digest_type", DigestType)
def test_entry_has_bookkeepers_bytes(digest_type: DigestType) -> None:
    data = encode_entry(HELLO, make_digest(digest_type, b"pw"))
    assert data.hex() == HEADER + DIGESTS[digest_type] + b"hello".hex()


@pytest.mark.parametrize("digest_type", DigestType)
def test_explicit_lac_has_bookkeepers_bytes(digest_type: DigestType) -> None:
    body = encode_explicit_lac(5, 3, make_digest(digest_type, b"pw"))
    assert body.hex() == LAC_HEADER + LAC_DIGESTS[digest_type]


def test_master_key_is_bookkeepers_also_for_the_empty_password() -> None:
    assert make_master_key(b"pw").hex() == "2aa226ba095b6969a64871977693b14671710d76"
    assert make_master_key(b"").hex() == "850bf1071c5e3d8c24235676f8816ae0cbe2f14f"


@given(
    entry=st.builds(Entry, I64, st.integers(0, 2**63 - 1), I64, I64, st.binary(max_size=100)),
    digest_type=st.sampled_from(DigestType),
)
def test_entry_survives_encoding(entry: Entry, digest_type: DigestType) -> None:
    digest = make_digest(digest_type, b"secret")
    data = encode_entry(entry, digest)
    assert decode_entry(data, digest, entry.ledger_id, entry.entry_id) == entry
    assert decode_entry(data, digest, entry.ledger_id, NO_ENTRY_ID) == entry


@given(
    payload=st.binary(max_size=40),
    position=st.integers(0, 1000),
    flip=st.integers(1, 255),
    digest_type=st.sampled_from([DigestType.CRC32C, DigestType.CRC32, DigestType.HMAC]),
)
def test_a_damaged_byte_anywhere_is_rejected(
    payload: bytes, position: int, flip: int, digest_type: DigestType
) -> None:
    digest = make_digest(digest_type, b"pw")
    damaged = bytearray(encode_entry(Entry(5, 1, 0, 99, payload), digest))
    damaged[position % len(damaged)] ^= flip
    with pytest.raises(BKDigestMatchException):
        decode_entry(bytes(damaged), digest, 5, 1)


def test_an_entry_is_decoded_where_it_lies_in_other_bytes() -> None:
    entry = Entry(7, 5, 4, 10, b"hello")
    digest = make_digest(DigestType.CRC32C, b"pw")
    stored = encode_entry(entry, digest)
    around = b"before" + stored + b"behind"
    end = 6 + len(stored)
    assert decode_entry(around, digest, 7, 5, 6, end) == entry
    for start, stop in ((5, end), (6, end - 1), (6, end + 1), (6, 40)):
        with pytest.raises(BKDigestMatchException):
            decode_entry(around, digest, 7, 5, start, stop)


@pytest.mark.parametrize("digest_type", DigestType)
def test_an_entry_cut_short_is_rejected(digest_type: DigestType) -> None:
    digest = make_digest(digest_type, b"pw")
    data = encode_entry(Entry(5, 1, 0, 0, b""), digest)
    for size in range(len(data)):
        with pytest.raises(BKDigestMatchException):
            decode_entry(data[:size], digest, 5, 1)


@pytest.mark.parametrize("digest_type", DigestType)
@pytest.mark.parametrize(("ledger_id", "entry_id"), [(6, 0), (5, 1), (6, NO_ENTRY_ID)])
def test_another_entry_than_asked_for_is_rejected(
    digest_type: DigestType, ledger_id: int, entry_id: int
) -> None:
    digest = make_digest(digest_type, b"pw")
    with pytest.raises(BKDigestMatchException, match=r"asked for entry .* of ledger"):
        decode_entry(encode_entry(HELLO, digest), digest, ledger_id, entry_id)


def test_only_hmac_notices_another_password() -> None:
    for digest_type in DigestType:
        data = encode_entry(HELLO, make_digest(digest_type, b"pw"))
        other = make_digest(digest_type, b"other")
        if digest_type is DigestType.HMAC:
            with pytest.raises(BKDigestMatchException):
                decode_entry(data, other, 5, 0)
        else:
            assert decode_entry(data, other, 5, 0) == HELLO


@pytest.mark.parametrize("digest_type", DigestType)
def test_an_explicit_lac_comes_back_with_its_digest_checked(digest_type: DigestType) -> None:
    digest = make_digest(digest_type, b"pw")
    body = encode_explicit_lac(5, 3, digest)
    assert decode_explicit_lac(body, digest, 5) == 3
    with pytest.raises(BKDigestMatchException, match="got that of 5"):
        decode_explicit_lac(body, digest, 6)
    if digest.size:
        with pytest.raises(BKDigestMatchException, match="does not match"):
            decode_explicit_lac(body[:15] + b"\4" + body[16:], digest, 5)


@given(body=st.binary(max_size=40), digest_type=st.sampled_from(DigestType))
def test_any_bytes_are_an_explicit_lac_or_a_digest_error(
    body: bytes, digest_type: DigestType
) -> None:
    digest = make_digest(digest_type, b"pw")
    try:
        lac = decode_explicit_lac(body, digest, 5)
    except BKDigestMatchException:
        return
    assert encode_explicit_lac(5, lac, digest) == body
