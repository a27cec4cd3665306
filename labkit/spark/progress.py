"""Progress of a running job: a bar in a notebook, a line in a terminal, nothing elsewhere.

    with progress(spark, "counting"):
        messages.count()

In a notebook one line remains, the same after every run.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from threading import Event, Thread
from typing import TYPE_CHECKING

from IPython.core.getipython import get_ipython
from IPython.display import display

from labkit.spark.shipping import is_behind_connect

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from pyspark.sql import SparkSession

_INTERVAL_S = 0.25

Show = Callable[[int, int], None]
"""Called with the number of tasks done, and the number of all tasks."""


@contextmanager
def progress(session: "SparkSession", what: str) -> Iterator[None]:
    """Show the progress of the jobs that run inside the block.

    A server behind Spark Connect reports to its clients: PySpark shows that.
    """
    show, end = _notebook(what) if get_ipython() else _terminal(what)
    over = Event()
    watch = Thread(target=_watch, args=(session, show, over), daemon=True)
    if not is_behind_connect(session):
        watch.start()
    try:
        yield
    finally:
        over.set()
        if watch.is_alive():
            watch.join()
        end()


def tasks_done(tracker: "StatusTracker") -> tuple[int, int]:
    """The number of finished tasks of the running stages, and of all their tasks."""
    stages = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
    counts = [(stage.numCompletedTasks, stage.numTasks) for stage in stages if stage]
    return sum(done for done, _ in counts), sum(total for _, total in counts)


def _watch(session: "SparkSession", show: Show, over: Event) -> None:
    tracker = session.sparkContext.statusTracker()
    while not over.wait(_INTERVAL_S):
        done, total = tasks_done(tracker)
        if total:
            show(done, total)


def _notebook(what: str) -> tuple[Show, Callable[[], None]]:
    # IPython returns a handle wherever it can update what it has shown.
    handle = display(_bundle(f"{what} ..."), raw=True, display_id=True)

    def show(done: int, total: int) -> None:
        text = f"{what}: {done} of {total} tasks"
        bar = f'<progress value="{done}" max="{total}"></progress> {escape(text)}'
        handle.update(_bundle(text, bar), raw=True)

    return show, lambda: handle.update(_bundle(f"{what}: done"), raw=True)


def _bundle(text: str, html: str = "") -> dict[str, str]:
    return {"text/plain": text, "text/html": html or escape(text)}


def _terminal(what: str) -> tuple[Show, Callable[[], None]]:
    if not sys.stderr.isatty():
        return lambda done, total: None, lambda: None

    def show(done: int, total: int) -> None:
        sys.stderr.write(f"\r{what}: {done} of {total} tasks ")
        sys.stderr.flush()

    def end() -> None:
        sys.stderr.write(f"\r{what}: done{' ' * 20}\n")

    return show, end
