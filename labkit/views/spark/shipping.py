"""Sends labkit's code from the driver to workers on which labkit is not installed.

The packages that it imports must be installed there: pyarrow, kazoo with pure-sasl, protobuf,
google-crc32c, numpy.
"""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZipFile

import labkit
from labkit.shipped_files import SHIPPED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_behind_connect(session: "SparkSession") -> bool:
    """Whether the session's driver runs in a Spark Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def ship_labkit(session: "SparkSession") -> None:
    """Send this labkit to all present and future workers of the session."""
    path = _zip_of_this_process()
    if is_behind_connect(session):
        session.addArtifacts(str(path), pyfile=True)
    else:
        session.sparkContext.addPyFile(str(path))


@cache
def _zip_of_this_process() -> Path:
    """One file: Spark refuses a second one of the same name."""
    folder = Path(tempfile.mkdtemp(prefix="labkit-"))
    # Executors that start later fetch the file when they start.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "labkit.zip"
    write_zip(path)
    return path


def write_zip(path: Path) -> None:
    """Write the package labkit, importable from the zip file, as for `spark-submit --py-files`.

    It has all files of the package: modules read some that are not Python when they are imported.
    Only what `labkit.shipped_files` finds beside or in the package is left out, since it needs a
    folder.
    """
    package = Path(labkit.__file__).parent
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for file in sorted(package.rglob("*")):
            name = file.relative_to(package)
            is_code = "__pycache__" not in name.parts and name.parts[0] not in SHIPPED
            if is_code and file.is_file():
                archive.write(file, package.name / name)
