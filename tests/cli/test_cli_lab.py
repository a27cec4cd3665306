"""Tests `labkit lab`, which opens the notebooks in JupyterLab from any working directory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_cli import DEADLINE_S, refusal

ROOT = Path(__file__).parents[2]
PRINTS_ITS_ARGUMENTS = "import os, sys; print(os.getpid(), *sys.argv[1:], flush=True)"


def run_lab(
    folder: Path, *arguments: str, jupyter: str = PRINTS_ITS_ARGUMENTS, **environment: str
) -> tuple[int, "subprocess.CompletedProcess[str]"]:
    """Run `labkit lab` in the folder, in which JupyterLab is this program. Return the process id of
    the command, and what it printed.
    """
    (folder / "jupyterlab.py").write_text(jupyter)
    command = [sys.executable, "-m", "labkit", "lab", *arguments]
    path = {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        said, complained = process.communicate(timeout=DEADLINE_S)
    done = subprocess.CompletedProcess(command, process.returncode, said, complained)
    return process.pid, done


def lines_of_lab(folder: Path, *arguments: str, **environment: str) -> list[str]:
    _, done = run_lab(folder, *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_lab_wants_a_notebook_that_is_there(tmp_path: Path) -> None:
    _, done = run_lab(tmp_path, "nowhere.ipynb")
    assert refusal(done) == (
        "labkit: notebook nowhere.ipynb does not exist; `labkit lab` without a name opens the tour"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["jupyterlab.py"]


def test_lab_runs_no_jupyter_of_the_working_folder(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    (tmp_path / "jupyterlab.py").write_text("print('installed', flush=True)")
    (trap / "lesson.ipynb").touch()
    path = f"{ROOT}{os.pathsep}{tmp_path}"
    assert lines_of_lab(trap, "lesson.ipynb", jupyter="print('trap')", PYTHONPATH=path) == [
        "installed"
    ]


@pytest.mark.java
def test_lab_opens_a_notebook_of_another_folder_in_its_folder(tmp_path: Path) -> None:
    here, other = tmp_path / "here", tmp_path / "the other"
    for folder in (here, other):
        folder.mkdir()
    (other / "a lesson.ipynb").touch()
    for name in ("../the other/a lesson.ipynb", str(other / "a lesson.ipynb")):
        [options] = lines_of_lab(here, name)
        assert (
            f"--LabApp.default_url=/lab/tree/a%20lesson.ipynb --ServerApp.root_dir={other}"
            in options
        )


@pytest.mark.java
def test_lab_copies_the_notebooks_on_first_use_and_opens_the_tour(tmp_path: Path) -> None:
    said, options = lines_of_lab(tmp_path)
    count = len(list((tmp_path / "notebooks").rglob("*.ipynb")))
    assert said == f"copied {count} notebooks to {tmp_path / 'notebooks'}"
    assert options.split()[1] == "--LabApp.default_url=/lab/tree/notebooks/00-tour.ipynb"
    (tmp_path / "notebooks/01-entry.ipynb").write_text("my work")
    [options] = lines_of_lab(tmp_path)
    assert (tmp_path / "notebooks/01-entry.ipynb").read_text() == "my work"


def test_lab_says_where_it_cannot_copy_the_notebooks(tmp_path: Path) -> None:
    (tmp_path / "notebooks").write_text("in the way")
    _, done = run_lab(tmp_path)
    assert refusal(done).startswith("labkit: cannot copy the notebooks to this folder: ")


def test_lab_becomes_jupyter_so_that_ctrl_c_is_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "my lesson.ipynb").touch()
    command_pid, done = run_lab(tmp_path, "my lesson.ipynb", "--no-browser")
    pid, *options = done.stdout.split()
    assert int(pid) == command_pid
    assert options[:2] == ["--LabApp.default_url=/lab/tree/my%20lesson.ipynb", "--no-browser"]
    (path,) = (each.partition("=")[2] for each in options if "extra_labextensions_path" in each)
    extension = Path(path) / "@jupyterlite" / "pyodide-kernel-extension"
    load = json.loads((extension / "package.json").read_text())["jupyterlab"]["_build"]["load"]
    assert (extension / load).is_file()


@pytest.mark.slow
def test_lab_turns_off_the_news_and_keeps_the_readers_configuration(tmp_path: Path) -> None:
    jupyter = (
        "from jupyterlab_server.config import get_page_config\n"
        "print(sorted(get_page_config([])['disabledExtensions']), flush=True)\n"
    )
    (tmp_path / "lesson.ipynb").touch()
    own = tmp_path / "own/labconfig"
    own.mkdir(parents=True)
    (own / "page_config.json").write_text('{"disabledExtensions": {"theirs": true}}')
    given = {"JUPYTER_CONFIG_PATH": str(own.parent)}
    assert lines_of_lab(tmp_path, "lesson.ipynb", jupyter=jupyter, **given) == [
        "['@jupyterlab/apputils-extension:announcements', 'theirs']"
    ]
