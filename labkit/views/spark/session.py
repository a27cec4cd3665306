"""Starts Spark in a local JVM, on a cluster, or through Spark Connect.

The environment, not the notebook, determines where Spark runs, so the same notebook works on a
laptop and on a cluster:

- `SPARK_REMOTE=sc://host:15002`: connect to a Spark Connect server. This machine needs the packages
that `pip install 'pyspark[connect]'` installs, but not Java.
- `SPARK_MASTER=spark://host:7077`: run the executors on a cluster and the driver on this machine.
- neither: run the driver and the executors in one local JVM with two threads.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.system.model.missing_part import MissingPart
from labkit.views.spark.shipping import ship_labkit
from labkit.worlds.live.host.java import find_java
from labkit.worlds.live.host.own_python import folder_to_add_to_path
from labkit.worlds.live.host.posix import require_posix

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Settings = dict[str, bool | float | int | str | None]

LOCAL_MASTER = "local[2]"
JVM_OPTIONS = "-Dspark.python.factory.idleWorkerMaxPoolSize=1"
"""Keep only one idle Python worker of each kind, so that lesson 13 fits into Binder's memory; a
worker takes 20 to 60 MB. If `SPARK_SUBMIT_OPTS` is set, it replaces these options.
"""
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

SETTINGS: Settings = {
    # The tables are small; Spark's default of 200 shuffle partitions would mean 200 tasks per
    # query.
    "spark.sql.shuffle.partitions": "2",
    # Print times in the same time zone everywhere, so that stored outputs can be compared.
    "spark.sql.session.timeZone": "UTC",
    # Let toPandas() transfer Arrow columns instead of pickled rows.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""Settings of every session; all of them can be changed while it runs."""

DRIVER_SETTINGS: Settings = {
    # The JVM uses about 300 MB in addition to its heap. The kernel, the cluster and Spark must
    # together fit into 2 GB.
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The serial collector uses about 100 MB less outside the heap, and is as fast at this size.
    "spark.driver.extraJavaOptions": (
        f"-XX:+UseSerialGC -Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
    ),
}
"""Settings with which the driver's JVM starts; later changes have no effect."""


CONNECT_SETTINGS: Settings = {"spark.sql.connect.serverStacktrace.enabled": "false"}
"""By default, Spark Connect appends the server's stack trace of a hundred lines to each error
message. With this setting, it is still available from the error's `getStackTrace()`.
"""


def spark_session(app_name: str) -> "SparkSession":
    """Return the running session with its current settings, or start one with `SETTINGS`.

    The first start takes 5 to 15 seconds. The session supports `format("bookkeeper")`; see
    `labkit.views.spark.bookkeeper`. `.stop()` stops the session, but its JVM, which takes about
    1 GB, runs until this process exits.

    Raises:
        MissingPart: PySpark is not installed; or `SPARK_REMOTE` is not set, and this machine has
            no suitable Java or runs Windows.
    """
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise MissingPart(
            "PySpark", "Spark needs the package pyspark", "run `pip install pyspark`"
        ) from error

    session = SparkSession.getActiveSession() or _start(app_name)
    master = session.conf.get("spark.master") or ""
    if "SPARK_REMOTE" in os.environ or not master.startswith("local"):
        ship_labkit(session)
    from labkit.views.spark.bookkeeper.source import BookKeeperSource

    session.dataSource.register(BookKeeperSource)
    return session


def _start(app_name: str) -> "SparkSession":
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
    """Return the settings with which Spark starts its Python workers; workers on a cluster use
    their own path.

    Settings are passed even if they equal the default, because the JVM survives `stop` and would
    keep the settings of the previous session.
    """
    forks = _uses_fork_daemon(master)
    module = "labkit.views.spark.worker_daemon" if forks else "pyspark.daemon"
    settings: Settings = {"spark.python.daemon.module": module}
    if master.startswith("local"):
        settings["spark.executorEnv.PYTHONPATH"] = folder_to_add_to_path() if forks else ""
    return settings


def _uses_fork_daemon(master: str) -> bool:
    # The workers must run the same Python as this process, and its libraries must be fork-safe.
    same_python = master.startswith("local") and os.environ["PYSPARK_PYTHON"] == sys.executable
    return same_python and sys.platform == "linux"


def _prepare_environment(master: str) -> None:
    require_posix("Spark in a local JVM")
    os.environ["JAVA_HOME"] = str(find_java().home)
    # By default Spark starts its workers with the first python3 on PATH, which may lack packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", JVM_OPTIONS)
    # glibc gives each JVM thread its own malloc arena; limiting them to two saves 100 MB.
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    if master.startswith("local"):
        # Without this setting, Spark listens on the address of the host name and prints a warning.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
