"""Provides TLC with the public specification; the tests are skipped if either is missing."""

import pytest

from tests.interop.apache import NotToBeHad
from tests.tla.tlc import Tlc, get_tlc


@pytest.fixture(scope="session")
def tlc() -> Tlc:
    try:
        return get_tlc()
    except NotToBeHad as problem:
        pytest.skip(str(problem))
