"""Tests `labkit lab`, which opens the notebooks in JupyterLab from any working directory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.worlds.live.host.exit_codes import EXIT_FAILED, EXIT_OK
from tests.cli.test_cli import DEADLINE_S, one_line


def test_lab_wants_a_notebook_that_is_there(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "labkit", "lab", "nowhere.ipynb"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == EXIT_FAILED
    assert one_line(done) == (
        "labkit: notebook nowhere.ipynb does not exist; `labkit lab` without a name opens the tour"
    )
    assert list(tmp_path.iterdir()) == []


def with_path_to(folder: Path) -> dict[str, str]:
    """Return an environment in which Python can import the modules in the folder."""
    return {**os.environ, "PYTHONPATH": f"{Path(__file__).parents[2]}{os.pathsep}{folder}"}


def lab_in(folder: Path, *arguments: str) -> list[str]:
    """Return the output of `labkit lab` in that folder.

    A fake JupyterLab in the folder prints its arguments and exits.
    """
    (folder / "jupyterlab.py").write_text("import sys; print(*sys.argv[1:], flush=True)")
    done = subprocess.run(
        [sys.executable, "-m", "labkit", "lab", *arguments],
        cwd=folder,
        env=with_path_to(folder),
        stdout=subprocess.PIPE,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    return done.stdout.splitlines()


def test_lab_runs_no_jupyter_of_the_working_folder(tmp_path: Path) -> None:
    installed, trap = tmp_path / "installed", tmp_path / "trap"
    for folder in (installed, trap):
        folder.mkdir()
        (folder / "jupyterlab.py").write_text(f"print({folder.name!r}, flush=True)")
    (trap / "lesson.ipynb").touch()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "labkit", "lab", "lesson.ipynb"],
        cwd=trap,
        env=with_path_to(installed),
        stdout=subprocess.PIPE,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert done.stdout == "installed\n"


@pytest.mark.java
def test_lab_opens_a_notebook_of_another_folder_in_its_folder(tmp_path: Path) -> None:
    here, other = tmp_path / "here", tmp_path / "the other"
    for folder in (here, other):
        folder.mkdir()
    (other / "a lesson.ipynb").touch()
    for name in ("../the other/a lesson.ipynb", str(other / "a lesson.ipynb")):
        [options] = lab_in(here, name)
        assert (
            f"--LabApp.default_url=/lab/tree/a%20lesson.ipynb --ServerApp.root_dir={other}"
            in options
        )


@pytest.mark.java
def test_lab_copies_the_notebooks_on_first_use_and_opens_the_tour(tmp_path: Path) -> None:
    said, options = lab_in(tmp_path)
    count = len(list((tmp_path / "notebooks").rglob("*.ipynb")))
    assert said == f"copied {count} notebooks to {tmp_path / 'notebooks'}"
    assert options.split()[0] == "--LabApp.default_url=/lab/tree/notebooks/00-tour.ipynb"
    (tmp_path / "notebooks/01-entry.ipynb").write_text("my work")
    [options] = lab_in(tmp_path)
    assert (tmp_path / "notebooks/01-entry.ipynb").read_text() == "my work"


def test_lab_says_where_it_cannot_copy_the_notebooks(tmp_path: Path) -> None:
    (tmp_path / "notebooks").write_text("in the way")
    with pytest.raises(subprocess.CalledProcessError):
        lab_in(tmp_path)


def test_lab_becomes_jupyter_so_that_ctrl_c_is_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "jupyterlab.py").write_text(
        "import os, sys; print(os.getpid(), *sys.argv[1:], flush=True)"
    )
    (tmp_path / "my lesson.ipynb").touch()
    with subprocess.Popen(
        [sys.executable, "-m", "labkit", "lab", "my lesson.ipynb", "--no-browser"],
        cwd=tmp_path,
        env=with_path_to(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        said, _ = process.communicate(timeout=DEADLINE_S)
    pid, *options = said.split()
    assert int(pid) == process.pid
    assert options[:2] == ["--LabApp.default_url=/lab/tree/my%20lesson.ipynb", "--no-browser"]
    (path,) = (each.partition("=")[2] for each in options if "extra_labextensions_path" in each)
    extension = Path(path) / "@jupyterlite" / "pyodide-kernel-extension"
    load = json.loads((extension / "package.json").read_text())["jupyterlab"]["_build"]["load"]
    assert (extension / load).is_file()
    assert process.returncode == EXIT_OK


@pytest.mark.slow
def test_lab_turns_off_the_news_and_keeps_the_readers_configuration(tmp_path: Path) -> None:
    (tmp_path / "jupyterlab.py").write_text(
        "from jupyterlab_server.config import get_page_config\n"
        "print(sorted(get_page_config([])['disabledExtensions']), flush=True)\n"
    )
    (tmp_path / "lesson.ipynb").touch()
    own = tmp_path / "own/labconfig"
    own.mkdir(parents=True)
    (own / "page_config.json").write_text('{"disabledExtensions": {"theirs": true}}')
    done = subprocess.run(
        [sys.executable, "-m", "labkit", "lab", "lesson.ipynb"],
        cwd=tmp_path,
        env={**with_path_to(tmp_path), "JUPYTER_CONFIG_PATH": str(own.parent)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert done.stdout == "['@jupyterlab/apputils-extension:announcements', 'theirs']\n"
