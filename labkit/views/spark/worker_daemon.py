"""Forks the Python workers of a local Spark instance from a process that has already imported
everything.

Spark runs this module instead of `pyspark.daemon`, and passes the workers' module as its argument.
Spark's own daemon leaves all imports to the workers, because imported libraries may start threads,
which a fork does not copy. Importing pandas and Arrow alone then costs each worker half a second
and 60 MB. In this process, the only other thread belongs to Arrow's jemalloc, which is fork-safe.
On macOS, the libraries are not fork-safe.
"""

import gc
import os
import re
import sys
from importlib import import_module
from zipimport import zipimporter

import numpy as np

_CORE_JAR = re.compile(r"[/\\]spark-core_[^/\\]*\.jar$")
_TABLES = ("pandas", "pyarrow", "labkit.views.spark.bookkeeper.source")


def main() -> None:
    """Import the workers' modules, then fork workers until Spark stops the daemon."""
    from pyspark.daemon import manager

    for name in (sys.argv[1], *_TABLES):
        import_module(name)
    # Workers inherit numpy's random generator, so reseed it; otherwise all workers would draw the
    # same numbers.
    os.register_at_fork(after_in_child=np.random.seed)
    _forget_archives()
    # Garbage collection writes to every object that it visits, which would unshare the memory
    # pages.
    gc.freeze()
    manager()


def _forget_archives() -> None:
    """Drop archives from the import path, so that workers do not reread their directories.

    Before each task, a worker invalidates the import caches, which makes Python reread the
    directory of every archive on the path: Spark's core jar with 6,000 files, none of them Python,
    and `pyspark.zip` once per package.
    """
    # Remove only Spark's core jar, because another jar may contain Python packages.
    sys.path[:] = [path for path in sys.path if not _CORE_JAR.search(path)]
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


if __name__ == "__main__":
    main()
