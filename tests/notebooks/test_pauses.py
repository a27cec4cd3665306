"""Tests lessons at a reader's pace: a long pause before each cell that uses live components."""

import asyncio
import faulthandler
import re
from collections.abc import AsyncIterator
from pathlib import Path

import nbformat
import pytest
import pytest_asyncio
from nbclient import NotebookClient
from nbformat import NotebookNode
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook

from tests.notebooks.running import NOTEBOOKS

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.java,
    pytest.mark.long,
    pytest.mark.timeout(2400),
]

PAUSE_S = 65.0
"""Longer than the session timeout, the flush interval, and the 60 s after which a broker or a
client closes a silent connection.
"""
CELL_TIMEOUT_S = 300
LESSON_TIMEOUT_S = 3600
ARTIFACTS = Path(__file__).parents[1] / "artifacts" / "pauses"
TOUCHES = {
    "00-tour.ipynb": r"await|^view$",
    "solutions/11-topics.ipynb": r"broker\.|consumer\.|OneBroker",
    "solutions/12-messageid-streams.ipynb": r"await record|message_id_picture|stream_report",
    "solutions/13-streaming.ipynb": r"await |spark\.",
}
"""For each lesson, a pattern that matches the cells which use live components."""
PARAMETERS = {"solutions/12-messageid-streams.ipynb": {"source": "live", "message_count": 6_000}}


async def run_slowly(name: str) -> NotebookNode:
    """Execute the notebook, with a pause before each cell that uses live components."""
    notebook = load_notebook_node(str(NOTEBOOKS / name))
    if name in PARAMETERS:
        notebook = parameterize_notebook(notebook, PARAMETERS[name])
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(NOTEBOOKS)}},
    )
    try:
        async with client.async_setup_kernel():
            for number, cell in enumerate(notebook.cells):
                if cell.cell_type == "code" and re.search(TOUCHES[name], cell.source, re.M):
                    await asyncio.sleep(PAUSE_S)
                await client.async_execute_cell(cell, number)
    finally:
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, ARTIFACTS / Path(name).name)
    return notebook


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def runs() -> AsyncIterator[dict[str, "asyncio.Task[NotebookNode]"]]:
    """Run all lessons at the same time, because they spend most of their time sleeping."""
    tasks = {name: asyncio.create_task(run_slowly(name)) for name in TOUCHES}
    yield tasks
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)


def printed(notebook: NotebookNode) -> dict[str, str]:
    """Return the printed output of each cell whose output is compared, by cell id."""
    return {
        cell.id: "".join(o.text for o in cell.outputs if o.get("name") == "stdout")
        for cell in notebook.cells
        if "nbval-check-output" in cell.metadata.get("tags", [])
    }


@pytest.mark.parametrize("name", TOUCHES)
async def test_a_lesson_says_the_same_to_a_reader_who_takes_a_minute_for_each_cell(
    name: str, runs: dict[str, "asyncio.Task[NotebookNode]"]
) -> None:
    faulthandler.cancel_dump_traceback_later()  # The test suite limits each test to ten minutes.
    async with asyncio.timeout(LESSON_TIMEOUT_S):
        said = printed(await asyncio.shield(runs[name]))
    if name not in PARAMETERS:
        assert said == printed(nbformat.read(NOTEBOOKS / name, as_version=4))
