import pytest

from tests.system.storage.machine import Machine


@pytest.fixture
def machine() -> Machine:
    return Machine()
