"""Plan a run of the test suite, namely what each test needs, which tests stay together, and when to
stop.

`tests/conftest.py` passes these hooks to pytest. With `-n`, test files are distributed over several
workers, and files that share an expensive component, such as a Spark session, use the same worker.
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

# Set no deadline, because a slow machine is no reason to fail. `make test-long` uses many examples,
# and all other targets use few.
settings.register_profile("few", deadline=None, max_examples=40)
settings.register_profile("many", deadline=None, max_examples=1000)
settings.load_profile("few")

# Spark runs only for seconds in these tests, so the slow optimizing compiler is not worthwhile.
# With unchanged options of `labkit.views.spark.session`, queries also reuse their Python workers.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")

SHARED_PARTS = {
    "tests/views/spark/bookkeeper/test_standalone": "Spark servers",
    "tests/views/spark/bookkeeper/test_page": "Spark servers",
    "tests/views/spark/": "Spark session",
    "tests/course/lessons/test_stream": "Spark session",
    "tests/browser/": "browser",
    "tests/interop/": "jars of BookKeeper",
}
"""The component that test files share, by path prefix; the first matching prefix counts. These
files take longest, so they run first.
"""

NOTHING_SHARED = ("tests/notebooks/test_lesson_runs.py", "tests/notebooks/test_tour.py")
"""Even tests of the same file in this list may run on different workers."""

NEEDS = {
    "java": {"apache", "bookies", "brokers", "five_bookies", "spark", "stage", "zookeeper"},
    "browser": {"browser"},
}
"""Markers that are added to tests with these fixtures."""

JAVA_COMMANDS = {"java", "javac", "mvn", "spark-class", "spark-submit"}

BEGUN_S = monotonic()
running: list[pytest.Item] = []


class Scheduler(LoadFileScheduling):
    """Distribute tests in collection order, keeping tests that belong together on one worker."""

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Assign another unit, and keep assigning units until the worker knows its next test.

        A worker does not start a test until it knows which test comes next.
        """
        if not self.workqueue:
            return  # The earlier workers took all units, two each.
        # A crashed worker cannot accept the unit; `remove_node` reassigns it.
        with suppress(OSError):
            super()._assign_work_unit(node)
        if self._pending_of(self.assigned_work[node]) < 2:
            self._assign_work_unit(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """Assign a crashed worker's tests to other workers, except the test that it was running.

        xdist would also assign completed tests again, and would wait forever for a report from a
        unit without remaining tests.
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
    """Return the name of a test's unit, which is a shared component, the test's file, or the test
    itself.
    """
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
    parser.addoption("--record", action="store_true", help="write the outputs of scripts again")


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduler:
    return Scheduler(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add markers to the tests and sort them.

    Tests with the longest timeouts run first, followed by tests that share a component.
    """
    sampled: set[str] = set()
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        for marker in (name for name, those in NEEDS.items() if those.intersection(fixtures)):
            item.add_marker(marker)
        if item.get_closest_marker("sampled"):
            function = item.nodeid.partition("[")[0]
            if function in sampled:
                item.add_marker("further")
            sampled.add(function)
    first = [*dict.fromkeys(SHARED_PARTS.values()), ""]
    items.sort(key=lambda item: (-timeout_of(item), first.index(shared_part_of(item.nodeid))))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    running[:] = [item]
    yield


def refuse_java_without_its_marker(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook that keeps tests without the `java` marker from starting Java."""
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
        pytest.skip(f"may take {timeout_of(item):.0f} s, but the run ends before that")


def timeout_of(item: pytest.Item) -> float:
    """Return the number of seconds after which pytest-timeout considers a test hung."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0] if marker else item.config.getini("timeout"))
