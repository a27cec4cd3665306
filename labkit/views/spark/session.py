"""Starts Spark where the environment says: in a local JVM, on a cluster, or behind Spark Connect.

The rule: the environment names the master, not the notebook, so the same notebook runs on a laptop
and on a cluster:

- `SPARK_REMOTE=sc://host:15002`: a Spark Connect server. This machine needs no Java, but the
  packages of `pip install 'pyspark[connect]'`.
- `SPARK_MASTER=spark://host:7077`: a cluster that runs the executors; the driver is here.
- neither: driver and executors in one local JVM with two threads.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.views.spark.shipping import ship_labkit
from labkit.worlds.live.host.java import find_java
from labkit.worlds.live.host.own_python import folder_to_add_to_path
from labkit.worlds.live.host.posix import require_posix

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Settings = dict[str, bool | float | int | str | None]

LOCAL_MASTER = "local[2]"
JVM_OPTIONS = "-Dspark.python.factory.idleWorkerMaxPoolSize=1"
"""A Python worker takes 20 to 60 MB for itself, and each kind of work keeps its idle workers: with
one of each, lesson 13 fits in Binder's memory.  If `SPARK_SUBMIT_OPTS` is set, it is used instead.
"""
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

SETTINGS: Settings = {
    # The tables here are small: 200 shuffle partitions, Spark's default, cost 200 tasks a query.
    "spark.sql.shuffle.partitions": "2",
    # Times are printed in the same zone everywhere, so stored outputs can be compared.
    "spark.sql.session.timeZone": "UTC",
    # toPandas() as Arrow columns instead of pickled rows.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""The settings of every session; all of them can be changed while it runs."""

DRIVER_SETTINGS: Settings = {
    # The JVM takes about 300 MB more than its heap. Kernel, cluster and Spark must fit in 2 GB.
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # One collector thread keeps about 100 MB less beside the heap, and is no slower at this size.
    "spark.driver.extraJavaOptions": (
        f"-XX:+UseSerialGC -Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
    ),
}
"""The settings with which the driver's JVM starts; later changes have no effect."""


CONNECT_SETTINGS: Settings = {"spark.sql.connect.serverStacktrace.enabled": "false"}
"""A session behind Spark Connect prints the server's stack trace, of a hundred lines, behind each
error's message.  Without it `getStackTrace()` of the error still has it.
"""


def spark_session(app_name: str) -> "SparkSession":
    """Return the running session with its settings as they are, or start one with `SETTINGS`; the
    first start takes 5 to 15 seconds.

    It knows `format("bookkeeper")`: see `labkit.views.spark.bookkeeper`.
    `.stop()` ends it; its JVM, about 1 GB, ends with this process.

    Raises:
        MissingPart: `SPARK_REMOTE` is not set, and there is no suitable Java or this is Windows;
            the message says what to do.
    """
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or _started(app_name)
    master = session.conf.get("spark.master") or ""
    if "SPARK_REMOTE" in os.environ or not master.startswith("local"):
        ship_labkit(session)
    _register_formats(session)
    return session


def _started(app_name: str) -> "SparkSession":
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name).config(map=SETTINGS)
    if "SPARK_REMOTE" in os.environ:
        return builder.config(map=CONNECT_SETTINGS).getOrCreate()
    master = os.environ.get("SPARK_MASTER", LOCAL_MASTER)
    _prepare_environment(master)
    return (
        builder.master(master).config(map=DRIVER_SETTINGS | _worker_settings(master)).getOrCreate()
    )


def _worker_settings(master: str) -> Settings:
    """How Spark starts its Python workers; on a cluster their path is its own.

    No setting may be left out where it has its default: the JVM goes on after `stop`, and keeps
    those of the session before.
    """
    forks = _forks_workers(master)
    module = "labkit.views.spark.worker_daemon" if forks else "pyspark.daemon"
    settings: Settings = {"spark.python.daemon.module": module}
    if master.startswith("local"):
        settings["spark.executorEnv.PYTHONPATH"] = folder_to_add_to_path() if forks else ""
    return settings


def _forks_workers(master: str) -> bool:
    """Whether the workers run this Python, and its libraries bear a fork."""
    runs_this = master.startswith("local") and os.environ["PYSPARK_PYTHON"] == sys.executable
    return runs_this and sys.platform == "linux"


def _register_formats(session: "SparkSession") -> None:
    from labkit.views.spark.bookkeeper.source import BookKeeperSource

    session.dataSource.register(BookKeeperSource)


def _prepare_environment(master: str) -> None:
    require_posix("Spark in a JVM of this machine")
    os.environ["JAVA_HOME"] = str(find_java().home)
    # Spark starts its workers with the first python3 on PATH, which may lack our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", JVM_OPTIONS)
    # glibc gives each thread of the JVM an arena beside Java's heap: two for all save 100 MB.
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    if master.startswith("local"):
        # Without it Spark listens on the address of the host name, and warns about it.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
