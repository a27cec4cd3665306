"""How the suite runs: what a test needs, which tests stay together, and when a run ends.

`tests/conftest.py` hands these hooks to pytest.  With `-n` several workers share the files: those
that use one expensive part, such as a Spark session, go to the same worker.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import PurePath
from time import monotonic
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

# A slow machine is not a failure.  `make test` tries few examples, `make test-long` many.
settings.register_profile("few", deadline=None, max_examples=40)
settings.register_profile("many", deadline=None, max_examples=1000)
settings.load_profile("few")

# Spark works for seconds here: the compiler that is slow and thorough does not pay.  As it stands
# for the options of `labkit.views.spark.session`, queries also keep their Python workers.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")

SHARED_PARTS = {
    "tests/views/spark/bookkeeper/test_standalone": "Spark servers",
    "tests/views/spark/bookkeeper/test_page": "Spark servers",
    "tests/views/spark/": "Spark session",
    "tests/course/lessons/test_stream": "Spark session",
    "tests/browser/": "browser",
    "tests/interop/": "jars of BookKeeper",
}
"""What the files share whose names begin so, by the first that fits; they run first, as they take
longest.
"""

NOTHING_SHARED = ("tests/notebooks/test_lesson_runs.py", "tests/notebooks/test_tour.py")
"""Here even the tests of one file go to different workers."""

NEEDS = {
    "java": {"apache", "bookies", "brokers", "five_bookies", "spark", "stage", "zookeeper"},
    "browser": {"browser"},
}
"""The markers that follow from a test's fixtures."""

JAVA_COMMANDS = {"java", "javac", "mvn", "spark-class", "spark-submit"}

BEGUN_S = monotonic()
running: list[pytest.Item] = []


class Scheduler(LoadFileScheduling):
    """Hands out the tests in the order of collection, and what belongs together at once."""

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Hand out one unit more, and so many that a worker knows a next test: before that it runs
        none.
        """
        # One that has crashed takes nothing; `remove_node` has the unit then.
        with suppress(OSError):
            super()._assign_work_unit(node)
        if self.workqueue and self._pending_of(self.assigned_work[node]) < 2:
            self._assign_work_unit(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """Hand the tests of a worker that crashed to the others, except the one that it ran.

        xdist also hands out again what is done, and waits for ever for the report of a unit that
        has no test left.
        """
        units = self.assigned_work.pop(node)
        left = (
            (unit, nodeid)
            for unit in units.values()
            for nodeid, is_done in unit.items()
            if not is_done
        )
        crashed = next(left, None)
        if crashed is None:
            return None
        unit, nodeid = crashed
        unit[nodeid] = True
        self.workqueue.update(
            {name: unit for name, unit in units.items() if not all(unit.values())}
        )
        for other in self.assigned_work:
            self._reschedule(other)
        return nodeid


def unit_of(nodeid: str) -> str:
    """The name of what one worker runs: a shared part, a test's file or the test itself."""
    if nodeid.startswith(NOTHING_SHARED):
        return nodeid
    return shared_part_of(nodeid) or nodeid.partition("::")[0]


def shared_part_of(nodeid: str) -> str:
    return next((part for start, part in SHARED_PARTS.items() if nodeid.startswith(start)), "")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--end-within",
        type=float,
        metavar="SECONDS",
        help="skip every test that might not end by then: each may take as long as its timeout",
    )


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduler:
    return Scheduler(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests by what they need; those that may take longest are first, then those with
    shared parts.
    """
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        for marker in (name for name, those in NEEDS.items() if those.intersection(fixtures)):
            item.add_marker(marker)
    first = [*dict.fromkeys(SHARED_PARTS.values()), ""]
    items.sort(key=lambda item: (-timeout_of(item), first.index(shared_part_of(item.nodeid))))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    running[:] = [item]
    yield


def refuse_java_without_its_marker(event: str, arguments: tuple[Any, ...]) -> None:
    """Python's audit hook: `make quick` starts no Java, and so do tests without the marker."""
    if event != "subprocess.Popen" or not running or running[0].get_closest_marker("java"):
        return
    command = arguments[1]
    words = command if isinstance(command, list | tuple) else [command]
    if JAVA_COMMANDS.intersection(PurePath(os.fsdecode(word)).name for word in words):
        raise RuntimeError(f"{running[0].nodeid} starts Java: mark it with `pytest.mark.java`")


sys.addaudithook(refuse_java_without_its_marker)


def pytest_runtest_setup(item: pytest.Item) -> None:
    seconds = item.config.getoption("--end-within")
    if seconds is not None and monotonic() + timeout_of(item) > BEGUN_S + seconds:
        pytest.skip(f"may take {timeout_of(item):.0f} s, and the run ends before")


def timeout_of(item: pytest.Item) -> float:
    """After this many seconds a test is taken to hang (pytest-timeout)."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0] if marker else item.config.getini("timeout"))
