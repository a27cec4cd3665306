"""Starts the Python workers of a local Spark: forks of one process that has imported what they
need.

Spark runs this module in place of `pyspark.daemon` and names the workers' module as its argument.
Spark's own daemon leaves all imports to the workers: pandas and Arrow alone take each of them half
a second and 60 MB.  It does so because a fork copies no threads.  Here the only other thread is one
of jemalloc, which Arrow brings, and which is prepared for forks; macOS's libraries are not.
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
    """Import, then fork workers until Spark says stop."""
    from pyspark.daemon import manager

    for name in (sys.argv[1], *_TABLES):
        import_module(name)
    # numpy's generator is part of what workers share: without a seed of each, all draw the same.
    os.register_at_fork(after_in_child=np.random.seed)
    _forget_archives()
    # A collection writes to all objects that it looks at, and so would copy what workers share.
    gc.freeze()
    manager()


def _forget_archives() -> None:
    """Before each task a worker looks for new modules, for which Python reads the directory of
    every archive that it knows again: that of Spark's core jar, whose 6,000 files are not Python's,
    and that of `pyspark.zip` once for each package.
    """
    # Only Spark's jar: another one on the path may have Python packages.
    sys.path[:] = [path for path in sys.path if not _CORE_JAR.search(path)]
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


if __name__ == "__main__":
    main()
