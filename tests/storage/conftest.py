import pytest
from hypothesis import settings

from tests.storage.machine import Machine

# A slow machine is no failure.
settings.register_profile("no assertion on time", deadline=None)
settings.load_profile("no assertion on time")


@pytest.fixture
def machine() -> Machine:
    return Machine()
