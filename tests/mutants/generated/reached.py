"""Which test reaches which line, and how long it takes: recorded once, kept in a file.

The quick tests are recorded by coverage.py, a folder at a time, when they are first needed.  A test
file is recorded again when it has changed, or a module that its tests reach.
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
    """Seconds by test, and tests by file and line, as recorded from these test files."""

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)

    def files(self) -> set[str]:
        """The test files that were recorded."""
        return {test.partition("::")[0] for test in self.seconds}

    def tests_of(self, file: str, lines: range) -> list[str]:
        """The tests that reach one of these lines of the file, in the order of `_by_promise`."""
        by_line = self.lines.get(file, {}).items()
        reached = {test for line, tests in by_line if line in lines for test in tests}
        return self._by_promise(file, reached)

    def tests_of_file(self, file: str) -> list[str]:
        """The tests that reach any line of the file."""
        return self.tests_of(file, range(1_000_000))

    def _by_promise(self, file: str, tests: set[str]) -> list[str]:
        """Whole test files: the module's first, then its package's, then the others; the quick ones
        first, recordings of conversations last.
        """
        by_file: defaultdict[str, list[str]] = defaultdict(list)
        for test in sorted(tests):
            by_file[test.partition("::")[0]].append(test)
        package, module = Path(file).parts[1], Path(file).stem

        def order(each: str) -> tuple[bool, bool, bool, float]:
            seconds = sum(self.seconds[test] for test in by_file[each])
            is_near = each.startswith(f"tests/{package}/")
            return "golden" in each, not each.endswith(f"test_{module}.py"), not is_near, seconds

        return [test for each in sorted(by_file, key=order) for test in by_file[each]]


@cache
def digest_of(file: str) -> str:
    """What the file's content is known by."""
    return hashlib.sha256((ROOT / file).read_bytes()).hexdigest()[:16]


def read() -> Reached:
    """What was recorded so far."""
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
    """The tests of a package; or those, and all others that generated mutants are tried with."""
    others = (*(f"tests/system/{each}" for each in PACKAGES), *_BEYOND) if all_of_them else ()
    return list(dict.fromkeys((f"tests/system/{package}", *others)))


def recorded(wanted: list[str]) -> Reached:
    """What the tests of these folders reach."""
    reached = read()
    for folder in wanted:
        if changed := _changed(reached, folder):
            recording = _Recording()
            pytest.main([*ARGUMENTS, *changed], plugins=[recording])
            _merge(reached, changed, recording)
            _write(reached)
    return reached


def _changed(reached: Reached, folder: str) -> list[str]:
    """The test files to record: they have changed, or what they reach has."""
    paths = (ROOT / folder).glob("test_*.py")
    files = sorted(str(path.relative_to(ROOT)) for path in paths)
    outdated = {file for file in files if reached.digests.get(file) != digest_of(file)}
    for file, by_line in reached.lines.items():
        if not (ROOT / file).exists() or reached.digests[file] != digest_of(file):
            outdated |= {test.partition("::")[0] for tests in by_line.values() for test in tests}
    return [file for file in files if file in outdated]


class _Recording:
    """A plugin of pytest that records each test apart."""

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
    """Put what was recorded in the place of what was known of these test files.  A test that did
    not pass says nothing about a mutant.
    """
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
