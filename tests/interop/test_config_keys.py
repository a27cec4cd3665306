"""The committed lists of keys match BookKeeper's and Pulsar's own classes."""

import pytest

from tests.interop.apache import NotToBeHad
from tests.interop.config_keys import BOOKKEEPER, PULSAR, committed, in_the_jars

pytestmark = [pytest.mark.interop, pytest.mark.java]


@pytest.fixture(scope="module")
def found() -> dict[str, list[str]]:
    try:
        return in_the_jars()
    except NotToBeHad as reason:
        pytest.skip(f"the configuration classes are not available: {reason}")


@pytest.mark.parametrize("name", [BOOKKEEPER, PULSAR])
def test_the_committed_keys_are_those_of_the_jars(name: str, found: dict[str, list[str]]) -> None:
    assert committed(name) == found[name], "run: python -m tests.interop.config_keys"
