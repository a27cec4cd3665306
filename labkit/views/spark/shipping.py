"""Sends labkit's code from the driver to Spark workers that do not have labkit installed.

The workers must have the packages that labkit imports: pyarrow, kazoo with pure-sasl, protobuf,
google-crc32c and numpy and, for writing, pulsar-client.
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
    return type(session).__module__.startswith("pyspark.sql.connect")


def ship_labkit(session: "SparkSession") -> None:
    path = _zip_of_this_process()
    if is_behind_connect(session):
        session.addArtifacts(str(path), pyfile=True)
    else:
        session.sparkContext.addPyFile(str(path))


@cache
def _zip_of_this_process() -> Path:
    # Use one file per process, because Spark rejects a second file with the same name.
    folder = Path(tempfile.mkdtemp(prefix="labkit-"))
    # Keep the file until the process exits, because executors that start later fetch it as well.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "labkit.zip"
    write_zip(path)
    return path


def write_zip(path: Path) -> None:
    """Write the package labkit to a zip file for `spark-submit --py-files`.

    Notebooks and recorded data are left out, because they are useless inside a zip file; all other
    files are included, because some modules read data files on import.
    """
    package = Path(labkit.__file__).parent
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for file in sorted(package.rglob("*")):
            name = file.relative_to(package)
            is_code = "__pycache__" not in name.parts and name.parts[0] not in SHIPPED
            if is_code and file.is_file():
                archive.write(file, package.name / name)
