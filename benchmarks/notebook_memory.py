"""Measures how much memory a lesson with Spark needs, including its kernel and all processes that
the kernel starts.

Memory shared by several processes is counted only once (`Pss`). When a JVM starts a process, both
appear to use the JVM's memory for a moment, so a process counts only if two consecutive samples
contain it. The heap sizes are those of `labkit.views.spark.session`, which were chosen for Binder's
2 GB.
"""

import threading
from pathlib import Path

import nbformat
import psutil
from nbclient import NotebookClient

from benchmarks.measure import Figure

_NOTEBOOKS = Path(__file__).parent.parent / "notebooks" / "solutions"
_LESSONS = ("12-messageid-streams", "13-streaming")
_INTERVAL_S = 0.2
_LIMIT_MB = 1600


def notebook_figures() -> list[Figure]:
    return [
        Figure(
            f"memory of lesson {name[:2]} at its largest, kernel and all that it starts",
            [_peak_mb(_NOTEBOOKS / f"{name}.ipynb")],
            " MB",
            at_most=_LIMIT_MB,
            note="local[2], Pss of all processes",
        )
        for name in _LESSONS
    ]


def _peak_mb(notebook: Path) -> float:
    client = NotebookClient(
        nbformat.read(notebook, as_version=4),
        timeout=600,
        resources={"metadata": {"path": str(notebook.parent)}},
    )
    peak, ended = 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak
        before: set[psutil.Process] = set()
        while not ended.wait(_INTERVAL_S):
            now = set(psutil.Process().children(recursive=True))
            peak = max(peak, sum(map(_pss_mb, now & before)))
            before = now

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        client.execute()
    finally:
        ended.set()
        watching.join()
    return peak


def _pss_mb(process: psutil.Process) -> float:
    try:
        return process.memory_full_info().pss / 2**20
    except psutil.NoSuchProcess:
        return 0.0
