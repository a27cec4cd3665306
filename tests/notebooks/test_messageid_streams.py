"""The lesson on MessageID streams runs: from the recorded messages, and on a cluster of its own."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import papermill
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "12-messageid-streams.ipynb"

pytestmark = pytest.mark.slow


def run(notebook: Path, output: Path, **parameters: object) -> str:
    """Run the notebook with these parameters; return all that it printed."""
    unknown = parameters.keys() - papermill.inspect_notebook(str(notebook)).keys()
    assert unknown == set()
    done = papermill.execute_notebook(
        str(notebook),
        str(output),
        parameters=parameters,
        cwd=str(NOTEBOOK.parent),
        progress_bar=False,
        execution_timeout=120,
    )
    outputs = [o for cell in done.cells if cell.cell_type == "code" for o in cell.outputs]
    return "".join(o.text for o in outputs if o.output_type == "stream")


def test_stored_outputs_come_again() -> None:
    options = ["--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout=120", "-q"]
    again = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-p", "no:cacheprovider", NOTEBOOK],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 0, again.stdout[-5000:]


def test_fewer_messages_and_the_folded_answer_pass_every_check(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    cells = {cell.id: cell for cell in notebook.cells}
    (answer,) = re.findall(r"```python\n(.*?)```", cells["exercise-md"].source, re.DOTALL)
    cells["exercise"].source = answer
    nbformat.write(notebook, tmp_path / "answered.ipynb")

    printed = run(tmp_path / "answered.ipynb", tmp_path / "run.ipynb", message_count=30_000)
    assert "All that was planted was found, and nothing else." in printed
    assert "Right: no key is scattered" in printed


@pytest.mark.parametrize("batched", [True, False], ids=["batched", "single"])
def test_live_cluster_gives_the_same_lesson(tmp_path: Path, batched: bool) -> None:
    printed = run(
        NOTEBOOK, tmp_path / "run.ipynb", source="live", message_count=3_000, batched=batched
    )
    assert "Every ledger belongs to one partition of one topic (M4)." in printed
    assert "All that was planted was found, and nothing else." in printed
    assert "Messages are lost, and no id tells." in printed
