"""labkit for a cluster's workers: they run the data source's code, and have it from the driver.

What labkit leans on there must be installed on them: pyarrow, kazoo, protobuf, google-crc32c.
"""

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZipFile

import labkit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ship_labkit(session: "SparkSession", *, connect: bool) -> None:
    """Hand this labkit to all workers that the session has or gets; `connect`: by Spark Connect."""
    folder = Path(tempfile.mkdtemp(prefix="labkit-"))
    # Executors that start later fetch it then.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "labkit.zip"
    write_zip(path)
    if connect:
        session.addArtifacts(str(path), pyfile=True)
    else:
        session.sparkContext.addPyFile(str(path))


def write_zip(path: Path) -> None:
    """All of labkit's code, importable from the zip file."""
    package = Path(labkit.__file__).parent
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for source in sorted(package.rglob("*.py")):
            archive.write(source, source.relative_to(package.parent))
