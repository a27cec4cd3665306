"""Lesson 01: the bytes of an entry."""

from labkit.course.predictions.prediction import Likely, Prediction, Values
from labkit.system.model.entry import DigestType, make_digest

_HEADER, _PAYLOAD = 32, 100


def _length_of_an_entry(values: Values) -> Likely:
    kind = values["digest_type"]
    digest = make_digest(DigestType[kind], password=b"").size
    right = _HEADER + digest + _PAYLOAD
    return {
        _HEADER + 4 + _PAYLOAD: f"You counted 4 bytes for the digest, but {kind} takes {digest}.",
        _HEADER + _PAYLOAD: f"You left out the digest. With {kind} it takes {digest} bytes,"
        " between the header and the payload.",
        digest + _PAYLOAD: "You left out the header: four numbers of 8 bytes each.",
        right - 16: "You counted 4 bytes for each number of the header. They are 64-bit numbers, so"
        " the header has 4 · 8 = 32 bytes.",
        _PAYLOAD: "You counted only the payload. The header and the digest precede it.",
        right + 4: "You added 4 bytes for a length. The files of a bookie have a length before each"
        " entry, but it is not part of the entry.",
    }


def _length_field(values: Values) -> Likely:
    digest = make_digest(DigestType[values["digest_type"]], password=b"").size
    return {
        20: "20 is the size of entry 3 alone. The field counts the payload of all entries of the"
        " ledger, up to and including this one.",
        12: "12 is the total of the earlier entries. The field includes the entry itself, and it"
        " does not matter which entries are confirmed.",
        4: "4 is the number of entries. The field counts bytes.",
        32 + 4 * (_HEADER + digest): "You counted headers and digests, too. The field counts only"
        " payload.",
        20 + _HEADER + digest: "That is the packed size of entry 3 alone. The field counts the"
        " payload of all entries so far, without headers and digests.",
    }


PREDICTIONS = {
    "an entry with 100 bytes of payload": Prediction(
        "In the picture in section 1, count the bytes before the payload, and add 100.",
        _length_of_an_entry,
    ),
    "length of entry 3": Prediction(
        "Read the row *length* in the table in section 1, and add up the sizes printed above.",
        _length_field,
    ),
    "the bookie notices a changed payload": Prediction(
        "Answer True or False: does the bookie check the digest?",
        {
            True: "The digest would reveal the change, but a bookie does not check it. To do so, it"
            " would need the ledger's digest type and password, which only clients have.",
        },
    ),
}
