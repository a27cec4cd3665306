"""Starts Spark's own servers on this machine, namely a master with two workers, and Spark
Connect.
"""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from time import monotonic, sleep
from typing import Self

import pyspark

from labkit.worlds.live.host.java import find_java

BIN = Path(pyspark.__file__).parent / "bin"
QUICK_JAVA = "-XX:TieredStopAtLevel=1"
"""The optimizing compiler is not worthwhile for processes that run for only a few seconds."""
_DEADLINE_S = 180


class _Servers:
    """Server processes that are terminated at the end of the `with` block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(_DEADLINE_S)

    def _start(self, name: str, *command: str, python: Path | None = None) -> Path:
        log = self._folder / f"{name}.log"
        environment = spark_environment(python or Path(sys.executable))
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
        self._processes.append(process)
        return log


class Standalone(_Servers):
    """A master and two workers with one core each; `url` is the address of the master."""

    def __enter__(self) -> Self:
        master = self._start_class("master", "org.apache.spark.deploy.master.Master", "--port", "0")
        self.url = _wait_for(master, r"Starting Spark master at (spark://\S+)")
        for number in (1, 2):
            kind = "org.apache.spark.deploy.worker.Worker"
            folder = str(self._folder / f"work-{number}")
            size = ("--cores", "1", "--memory", "1g", "--work-dir", folder, self.url)
            worker = self._start_class(f"worker-{number}", kind, *size)
            _wait_for(worker, "(Successfully registered with master)")
        return self

    def _start_class(self, name: str, kind: str, *options: str) -> Path:
        command = (str(BIN / "spark-class"), kind, "--host", "127.0.0.1", "--webui-port", "0")
        return self._start(name, *command, *options)


class ConnectServer(_Servers):
    """A Spark Connect server with a local master; `url` is a value for SPARK_REMOTE.

    labkit is not installed in the server's Python.
    """

    def __enter__(self) -> Self:
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
            "spark.driver.memory": "600m",
            "spark.ui.enabled": "false",
        }
        confs = [part for pair in settings.items() for part in ("--conf", "=".join(pair))]
        kind = "org.apache.spark.sql.connect.service.SparkConnectServer"
        command = (str(BIN / "spark-submit"), "--master", "local[2]", *confs, "--class", kind)
        python = python_without_labkit(self._folder)
        log = self._start("connect", *command, "spark-internal", python=python)
        port = _wait_for(log, r"Spark Connect server started at: \S*?:(\d+)")
        self.url = f"sc://127.0.0.1:{port}"
        return self


def spark_environment(python: Path) -> dict[str, str]:
    """Return the environment variables that Spark's commands need here, without labkit's own."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return kept | {
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
    }


def _wait_for(log: Path, pattern: str) -> str:
    deadline = monotonic() + _DEADLINE_S
    while monotonic() < deadline:
        if found := re.search(pattern, log.read_text(errors="replace")):
            return found[1]
        sleep(0.1)
    raise TimeoutError(f"{log} never said {pattern}: {log.read_text(errors='replace')[-2000:]}")


def python_without_labkit(folder: Path) -> Path:
    """Write a Python command that has all installed packages except editable ones, such as
    labkit.
    """
    path = folder / "python"
    packages = sysconfig.get_path("purelib")
    path.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n'
    )
    path.chmod(0o755)
    return path
