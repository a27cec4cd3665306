"""Fixtures that run a bookie in this process."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.system.bookie.in_process import Node, running


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """Yield a bookie whose disk operations complete immediately."""
    async with running(tmp_path) as (node, _):
        node.journal.release(10_000)
        node.flush_thread.release(10_000)
        yield node


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[Node]:
    """Yield a bookie whose disk operations wait until the test releases them."""
    async with running(tmp_path) as (node, _):
        yield node
