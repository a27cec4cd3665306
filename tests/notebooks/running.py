"""Runs notebooks with papermill, using other parameters, and with nbval, as a teacher would."""

import os
import subprocess
import sys
from pathlib import Path
from shutil import copyfile

import nbformat
import papermill

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
CELL_TIMEOUT_S = 240


def run_with(name: str, out: Path, **parameters: object) -> str:
    """Execute a notebook with these parameters in the folder of `out`; return everything that it
    printed or showed.

    Fail if the notebook lacks one of the parameters, because papermill only warns about that.
    """
    source = NOTEBOOKS / name
    known = papermill.inspect_notebook(str(source))
    assert set(parameters) <= set(known), f"the parameters of {name} are {', '.join(known)}"
    papermill.execute_notebook(
        str(source),
        str(out),
        parameters=parameters,
        cwd=str(out.parent),
        progress_bar=False,
        execution_timeout=CELL_TIMEOUT_S,
        store_widget_state=False,
    )
    cells = nbformat.read(out, as_version=4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    shown = (o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs)
    return "\n".join(shown)


def check_with_nbval(name: str, folder: Path, **environment: str) -> None:
    """Execute a copy of the committed notebook, and compare those outputs that are marked for
    comparison.

    The copy is in `folder`, because a lesson may create files. `environment` contains additional
    environment variables.
    """
    copy = folder / Path(name).name
    copyfile(NOTEBOOKS / name, copy)
    checked = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "--nbval-lax", "--nbval-current-env", "-q"),
            *("-p", "tests.without_iris"),
            *("-p", "no:cacheprovider", f"--nbval-cell-timeout={CELL_TIMEOUT_S}"),
            *("-c", str(ROOT / "pyproject.toml"), str(copy)),
        ],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
