"""A bookie in this process, whose disk works at once or waits for the test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.system.bookie.in_process import Node, running


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """A bookie whose disk works as soon as it is asked to."""
    async with running(tmp_path) as (node, _):
        node.journal.release(10_000)
        node.flush.release(10_000)
        yield node


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[Node]:
    """A bookie whose disk waits for the test."""
    async with running(tmp_path) as (node, _):
        yield node
