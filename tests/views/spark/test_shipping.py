"""Tests how labkit's code is shipped to workers that lack it."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from zipfile import ZipFile

import pytest
from pyspark.sql import SparkSession

import labkit
from labkit.views.spark.shipping import ship_labkit, write_zip
from labkit.worlds.sim.explore.code_version import code_version
from tests.programs import output_of


def test_labkit_is_sent_again_as_the_same_file() -> None:
    sent: list[str] = []
    session = SimpleNamespace(sparkContext=SimpleNamespace(addPyFile=sent.append))
    for _ in range(2):
        ship_labkit(cast(SparkSession, session))
    assert len(sent) == 2
    assert len(set(sent)) == 1


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shipped") / "labkit.zip"
    write_zip(path)
    return path


def run_from(archive: Path, code: str) -> str:
    """Run the code with labkit imported from the zip file; return its output."""
    program = f"import sys; sys.path.insert(0, {str(archive)!r}); {code}"
    return output_of(sys.executable, "-c", program, folder=archive.parent)


@pytest.mark.sampled
@pytest.mark.parametrize("package", ["labkit.course", "labkit.views.spark"])
def test_every_module_can_be_imported_from_the_zip_file(archive: Path, package: str) -> None:
    code = (
        f"import importlib, pkgutil, {package} as package;"
        f"names = [each.name for each in pkgutil.walk_packages(package.__path__, '{package}.')];"
        "[importlib.import_module(name) for name in names];"
        "print(package.__file__, len(names))"
    )
    file, count = run_from(archive, code).rsplit(maxsplit=1)
    assert Path(file).is_relative_to(archive)
    assert int(count) > 5


def test_the_zip_file_has_every_file_of_the_package(archive: Path) -> None:
    package = Path(labkit.__file__).parent
    files = {
        file.relative_to(package.parent).as_posix()
        for file in package.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    with ZipFile(archive) as opened:
        assert set(opened.namelist()) == files


@pytest.mark.slow
def test_code_from_a_zip_file_has_the_version_of_the_same_code_in_a_folder(archive: Path) -> None:
    code = "from labkit.worlds.sim.explore.code_version import code_version; print(code_version())"
    assert run_from(archive, code).strip() == code_version()
