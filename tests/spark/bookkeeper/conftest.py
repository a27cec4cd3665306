from collections.abc import Iterator
from itertools import count

import pytest

from tests.spark.bookkeeper.stage import Stage

NAMES = (f"spark-{number}" for number in count())


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Four bookies; tests keep apart by topic names."""
    with Stage(bookies=4) as stage:
        yield stage


@pytest.fixture
def name() -> str:
    """A topic that no other test uses."""
    return next(NAMES)
