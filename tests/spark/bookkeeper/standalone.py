"""Spark's own cluster on this machine: a master and workers, each a process."""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from time import monotonic, sleep
from typing import Self

import pyspark

from labkit.live.java import find_java

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_DEADLINE_S = 60


class Standalone:
    """A master and two workers of one core; `url` is the master's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> Self:
        master = self._start("master", "org.apache.spark.deploy.master.Master", "--port", "0")
        self.url = _wait_for(master, r"Starting Spark master at (spark://\S+)")
        for number in (1, 2):
            kind = "org.apache.spark.deploy.worker.Worker"
            folder = str(self._folder / f"work-{number}")
            size = ("--cores", "1", "--memory", "1g", "--work-dir", folder, self.url)
            worker = self._start(f"worker-{number}", kind, *size)
            _wait_for(worker, "(Successfully registered with master)")
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(_DEADLINE_S)

    def _start(self, name: str, kind: str, *options: str) -> Path:
        log = self._folder / f"{name}.log"
        environment = os.environ | {"JAVA_HOME": str(find_java().home), "SPARK_NO_DAEMONIZE": "1"}
        command = [str(_SPARK_CLASS), kind, "--host", "127.0.0.1", "--webui-port", "0", *options]
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
        self._processes.append(process)
        return log


def _wait_for(log: Path, pattern: str) -> str:
    deadline = monotonic() + _DEADLINE_S
    while monotonic() < deadline:
        if found := re.search(pattern, log.read_text(errors="replace")):
            return found[1]
        sleep(0.1)
    raise TimeoutError(f"{log} never said {pattern}: {log.read_text(errors='replace')[-2000:]}")


def python_without_labkit(folder: Path) -> Path:
    """This Python with all installed packages, but not with what is installed as a link."""
    path = folder / "python"
    packages = sysconfig.get_path("purelib")
    path.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n'
    )
    path.chmod(0o755)
    return path
