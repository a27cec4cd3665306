"""The wheel and source distribution work for a user without a checkout."""

import http.client
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
from contextlib import suppress
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.programs import output_of
from tests.tidy.test_style import ROOT, committed

PAGES = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "docs/pulsar.md")

pytestmark = pytest.mark.slow


def build(folder: Path, *arguments: str) -> None:
    """Build from this directory with the installed packages, without downloading anything."""
    output_of(sys.executable, "-m", "hatchling", "build", *arguments, folder=folder)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Build a wheel and a source distribution and return their paths."""
    folder = tmp_path_factory.mktemp("project")
    for file in committed():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, folder / file)
    build(folder)
    [wheel], [source] = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    return wheel, source


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install labkit's wheel in an environment that can also import the packages installed here.

    Returns the environment's directory of commands.
    """
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin/python"
    install = ("-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index")
    subprocess.run([sys.executable, *install, built[0]], check=True)
    # A path file makes the packages importable, but does not process the path files in their
    # directory, so labkit's checkout is not found.
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin"


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def names_in(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_a_wheel_holds_notebooks_data_and_types(built: tuple[Path, Path]) -> None:
    names = names_in(built[0])
    files = [file.as_posix() for file in committed()]
    notebooks = {f"labkit/{name}" for name in files if re.match(r"notebooks/.*\.ipynb$", name)}
    data = {f"labkit/{name}" for name in files if re.match(r"data/.*\.parquet$", name)}
    stubs = {"labkit/__init__.pyi", "labkit/course/lessons/__init__.pyi"}
    assert notebooks | data | stubs | {"labkit/py.typed"} <= names
    package = {name for name in files if name.startswith("labkit/")}
    assert package <= names
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"labkit"}


def test_a_source_distribution_holds_all_that_git_does(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    files = {file.as_posix() for file in committed()}
    assert files <= names
    assert {"Makefile", "constraints.txt", "data/README.md", *PAGES} <= names


def test_a_source_distribution_builds_the_same_wheel(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    wheel, source = built
    shutil.unpack_archive(source, tmp_path)
    [folder] = tmp_path.iterdir()
    build(folder, "-t", "wheel")
    [again] = (folder / "dist").glob("*.whl")
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


def test_an_editable_install_links_to_the_checkout_and_copies_nothing(tmp_path: Path) -> None:
    code = "import sys; from hatchling.build import build_editable; build_editable(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, tmp_path], cwd=ROOT, check=True)
    [wheel] = tmp_path.glob("*.whl")
    names = names_in(wheel)
    assert {name for name in names if ".dist-info/" not in name} == {"_labkit.pth"}


def status_of(port: int, path: str) -> int:
    """Return the response's status, retrying until the server is listening."""
    for _ in range(300):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        with suppress(ConnectionError):
            connection.request("GET", path)
            return connection.getresponse().status
        time.sleep(0.1)
    raise TimeoutError(f"no server is listening on port {port}")


@pytest.mark.java
def test_an_installed_wheel_opens_the_tour_in_an_empty_folder(
    installed: Path, tmp_path: Path
) -> None:
    """JupyterLab offers the tour, and the whole tour runs without an error."""
    command = [str(installed / "labkit"), "lab", "--no-browser"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    try:
        said = b""
        while not (address := re.search(rb"http://127\.0\.0\.1:(\d+)/\S*token=(\w+)", said)):
            line = process.stdout.readline()
            assert line, said.decode()
            said += line
        port, token = (part.decode() for part in address.groups())
        tour = f"/api/contents/notebooks/00-tour.ipynb?token={token}"
        assert status_of(int(port), tour) == 200
    finally:
        process.terminate()
        process.communicate()
    papermill = (installed / "python", "-m", "papermill", "notebooks/00-tour.ipynb", "out.ipynb")
    output_of(*papermill, folder=tmp_path, env=environment())


def test_an_installed_wheel_has_the_recorded_data(installed: Path, tmp_path: Path) -> None:
    code = (
        "import labkit; from labkit.views.spark.flights import SAMPLE; print(SAMPLE); print(labkit)"
    )
    output = output_of(installed / "python", "-c", code, folder=tmp_path, env=environment())
    sample, package = output.splitlines()
    assert Path(sample).is_file()
    assert Path(sample).is_relative_to(installed.parent)
    assert str(installed.parent) in package
