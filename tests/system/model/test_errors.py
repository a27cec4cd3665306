import pytest

from labkit.system.model import errors


@pytest.mark.parametrize(
    "name", ["Read", "Write", "Timeout", "BookieHandleNotAvailable", "DigestMatch"]
)
def test_what_could_not_be_done_proves_nothing(name: str) -> None:
    assert not issubclass(getattr(errors, f"BK{name}Exception"), errors.PROVES_ABSENCE)
