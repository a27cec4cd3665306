import pytest

from labkit.system.model import errors
from labkit.system.model.errors import BKException

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type)]
TOLD = [kind for kind in KINDS if issubclass(kind, BKException) and kind is not BKException]
CODES = {
    "BKReadException": -1,
    "BKDigestMatchException": -5,
    "BKNotEnoughBookiesException": -6,
    "BKNoSuchLedgerExistsException": -7,
    "BKBookieHandleNotAvailableException": -8,
    "BKLedgerClosedException": -11,
    "BKWriteException": -12,
    "BKNoSuchEntryException": -13,
    "BKAddEntryQuorumTimeoutException": -21,
    "BKTimeoutException": -23,
    "BKLedgerFencedException": -101,
    "BKUnauthorizedAccessException": -102,
}


def test_codes_are_bookkeepers() -> None:
    found = {kind.__name__: kind.code for kind in TOLD}
    assert found | CODES == found


def test_no_two_exceptions_share_a_code() -> None:
    assert len({kind.code for kind in TOLD}) == len(TOLD)


@pytest.mark.parametrize(
    "name", ["Read", "Write", "Timeout", "BookieHandleNotAvailable", "DigestMatch"]
)
def test_what_could_not_be_done_proves_nothing(name: str) -> None:
    assert not issubclass(getattr(errors, f"BK{name}Exception"), errors.PROVES_ABSENCE)
