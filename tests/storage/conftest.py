import pytest

from tests.storage.machine import Machine


@pytest.fixture
def machine() -> Machine:
    return Machine()
