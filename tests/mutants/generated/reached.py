"""Record which test reaches which lines and how long the test takes, and keep the result in a file.

coverage.py records the quick tests of a directory when they are first needed. A test file is
recorded again if it has changed, or if a module that its tests reach has changed.
"""

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage

ROOT = Path(__file__).parents[3]
STATES = ROOT / "tests" / "artifacts" / "mutants"
PACKAGES = ("client", "bookie", "storage", "autorecovery", "metadata", "topic")
_BEYOND = ("tests/system/node", "tests/golden")
ARGUMENTS = (
    *("-p", "no:nbval", "-p", "no:cacheprovider", "-p", "tests.without_iris", "-q"),
    *("-o", "timeout=0", "-m", "not (browser or java or long or slow)"),
)
_FILE = STATES / "reached.json"


@dataclass(slots=True)
class Reached:
    """The duration of each test, the tests that reach each line, and the files' digests."""

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)

    def files(self) -> set[str]:
        """Return the test files that have been recorded."""
        return {test.partition("::")[0] for test in self.seconds}

    def tests_of(self, file: str, lines: range) -> list[str]:
        """Return the tests that reach one of these lines of the file, ordered by `_by_promise`."""
        by_line = self.lines.get(file, {}).items()
        reached = {test for line, tests in by_line if line in lines for test in tests}
        return self._by_promise(file, reached)

    def tests_of_file(self, file: str) -> list[str]:
        """Return the tests that reach any line of the file."""
        return self.tests_of(file, range(1_000_000))

    def _by_promise(self, file: str, tests: set[str]) -> list[str]:
        """Sort the tests by file, so that the module's own tests come first, then those of its
        package, then all others.

        Within each group, quick test files come first. Golden scripts come last.
        """
        by_file: defaultdict[str, list[str]] = defaultdict(list)
        for test in sorted(tests):
            by_file[test.partition("::")[0]].append(test)
        path = Path("tests", *Path(file).parts[1:])
        own = str(path.with_name(f"test_{path.name}"))
        package = f"tests/system/{path.parts[2]}/"

        def order(each: str) -> tuple[bool, bool, bool, float]:
            seconds = sum(self.seconds[test] for test in by_file[each])
            return "golden" in each, each != own, not each.startswith(package), seconds

        return [test for each in sorted(by_file, key=order) for test in by_file[each]]


@cache
def digest_of(file: str) -> str:
    """Return a digest of the file's contents."""
    return hashlib.sha256((ROOT / file).read_bytes()).hexdigest()[:16]


def read() -> Reached:
    """Return the recording made so far."""
    if not _FILE.exists():
        return Reached()
    data = json.loads(_FILE.read_text(encoding="utf-8"))
    names = data["tests"]
    lines = {
        file: {int(line): [names[i] for i in tests] for line, tests in by_line.items()}
        for file, by_line in data["lines"].items()
    }
    return Reached(data["seconds"], lines, data["digests"])


def folders(package: str, *, all_of_them: bool = False) -> list[str]:
    """Return the test directories of a package, or those used with `--wide`."""
    others = (*(f"tests/system/{each}" for each in PACKAGES), *_BEYOND) if all_of_them else ()
    return list(dict.fromkeys((f"tests/system/{package}", *others)))


def recorded(wanted: list[str]) -> Reached:
    """Return which lines the tests in these directories reach, recording outdated files again."""
    reached = read()
    for folder in wanted:
        if changed := _changed(reached, folder):
            recording = _Recording()
            pytest.main([*ARGUMENTS, *changed], plugins=[recording])
            _merge(reached, changed, recording)
            _write(reached)
    return reached


def _changed(reached: Reached, folder: str) -> list[str]:
    """Return the test files that must be recorded, because they have changed or reach changed
    code.
    """
    paths = (ROOT / folder).rglob("test_*.py")
    files = sorted(str(path.relative_to(ROOT)) for path in paths)
    outdated = {file for file in files if reached.digests.get(file) != digest_of(file)}
    for file, by_line in reached.lines.items():
        if not (ROOT / file).exists() or reached.digests[file] != digest_of(file):
            outdated |= {test.partition("::")[0] for tests in by_line.values() for test in tests}
    return [file for file in files if file in outdated]


class _Recording:
    """A pytest plugin that records the coverage of each test separately."""

    def __init__(self) -> None:
        self.coverage = Coverage(
            data_file=None,
            config_file=False,
            include=[str(ROOT / "labkit" / "system" / package / "*") for package in PACKAGES],
            messages=False,
        )
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    def pytest_sessionstart(self) -> None:
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        began = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = round(time.process_time() - began, 4)
            self.coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()


def _merge(reached: Reached, changed: list[str], recording: _Recording) -> None:
    """Replace the recorded data of these test files, leaving out tests that did not pass."""
    again = set(changed)
    for by_line in reached.lines.values():
        for line, tests in by_line.items():
            by_line[line] = [t for t in tests if t.partition("::")[0] not in again]
    for test in [t for t in reached.seconds if t.partition("::")[0] in again]:
        del reached.seconds[test]
    reached.seconds |= recording.seconds
    data = recording.coverage.get_data()
    for path in sorted(data.measured_files()):
        file = str(Path(path).relative_to(ROOT))
        reached.digests[file] = digest_of(file)
        for line, contexts in data.contexts_by_lineno(path).items():
            tests = sorted({each for each in contexts if each} - recording.failed)
            reached.lines.setdefault(file, {}).setdefault(line, []).extend(tests)
    reached.digests |= {file: digest_of(file) for file in changed}


def _write(reached: Reached) -> None:
    STATES.mkdir(parents=True, exist_ok=True)
    names = sorted(reached.seconds)
    numbers = {name: number for number, name in enumerate(names)}
    lines: dict[str, Any] = {
        file: {
            line: sorted(numbers[t] for t in tests if t in numbers)
            for line, tests in by_line.items()
        }
        for file, by_line in reached.lines.items()
    }
    data = {"tests": names, "seconds": reached.seconds, "lines": lines, "digests": reached.digests}
    _FILE.write_text(json.dumps(data), encoding="utf-8")
