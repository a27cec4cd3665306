"""Try each mutant in a fork of one warm process that has collected all tests.

The fork replaces the code of the mutated functions, runs the tests that reach the changed lines,
and stops at the first failure. A limit on processor time catches infinite loops, and a limit on
elapsed time catches tests that wait forever, because the suite's own timeout is ten minutes.

Code that runs when a module is imported cannot be replaced in a warm process. Such a mutant gets a
fresh process, in which the module is compiled from the changed source (`planted`).
"""

import ast
import functools
import gc
import inspect
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from tests.mutants.generated.operators import Mutant
from tests.mutants.generated.reached import ARGUMENTS, ROOT, Reached

_KILLED, _HELD = 1, 0
_CACHE = type(functools.cache(len))
_FRESH_FILES = 20
"""The maximum number of test files that a fresh process runs."""
_TESTS_S = 30.0
"""The maximum duration of the tests to run for a mutant, according to the recording."""
_FACTOR = 5.0
"""How many times longer than the recorded duration the fork may take."""
_PROCESSOR_S, _CLOCK_S = 5, 20
"""How many seconds the fork may take in addition."""


class Outcome(Enum):
    """The outcome of trying a mutant."""

    KILLED = "killed"
    ENDLESS = "endless"
    SURVIVED = "survived"
    UNREACHED = "unreached"
    """No recorded test reaches the mutated lines; a test that starts Java may."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The outcome of a mutant, and the test that caught it ("" if no test or more than one test
    caught it).
    """

    mutant: Mutant
    outcome: Outcome
    test: str = ""
    seconds: float = 0.0


class Trials:
    """A pytest plugin that tries mutants instead of running the collected tests."""

    def __init__(
        self,
        mutants: Iterable[Mutant],
        reached: Reached,
        report: Callable[[Trial], None],
    ) -> None:
        self._mutants, self._reached, self._report = mutants, reached, report
        self._sound: dict[str, bool] = {}
        """Whether the test passes by itself without a mutant."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._session = session
        self._items = {item.nodeid: item for item in session.items}
        self._functions = list(_functions())
        self._caches = list(_caches())
        # Garbage collection in a fork would copy the memory that it shares with this process.
        gc.collect()
        gc.freeze()
        for mutant in self._mutants:
            began = time.monotonic()
            outcome, test = self._tried(mutant)
            seconds = round(time.monotonic() - began, 1)
            self._report(Trial(mutant, outcome, test, seconds))
        return True

    def _tried(self, mutant: Mutant) -> tuple[Outcome, str]:
        source = (ROOT / mutant.file).read_text(encoding="utf-8")
        mutated = mutant.planted(source)
        codes = exchanged(self._functions, mutant.file, source, mutated)
        if codes is None:
            return self._tried_fresh(mutant, mutated)
        tests = self._within_limits(self._reached.tests_of(mutant.file, mutant.lines))
        if not tests:
            return Outcome.UNREACHED, ""
        while tests:
            outcome, test = self._in_a_fork(tests, codes)
            if outcome is Outcome.KILLED and not self._is_sound(test):
                tests.remove(test)
                continue
            if outcome is Outcome.ENDLESS and self._in_a_fork(tests, [])[0] is not Outcome.SURVIVED:
                # The machine is so busy that even the original code exceeds the limit, so this does
                # not count as catching the mutant.
                return Outcome.SURVIVED, ""
            return outcome, test
        return Outcome.SURVIVED, ""

    def _within_limits(self, tests: list[str]) -> list[str]:
        left_s = _TESTS_S
        chosen: list[str] = []
        for test in tests:
            left_s -= self._reached.seconds[test]
            if test in self._items and (left_s > 0 or not chosen):
                chosen.append(test)
        return chosen

    def _is_sound(self, test: str) -> bool:
        """Return whether the test that caught the mutant passes without the mutant, as it
        should.
        """
        if test and test not in self._sound:
            self._sound[test] = self._in_a_fork([test], [])[0] is Outcome.SURVIVED
        return self._sound.get(test, True)

    def _in_a_fork(
        self, tests: list[str], codes: list[tuple[FunctionType, CodeType]]
    ) -> tuple[Outcome, str]:
        seconds = _FACTOR * sum(self._reached.seconds[test] for test in tests)
        sys.stdout.flush()
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reads)
            limit = int(seconds) + _PROCESSOR_S
            self._run(tests, codes, writes, limit)
        os.close(writes)
        status = _awaited(child, seconds + _CLOCK_S)
        with os.fdopen(reads) as pipe:
            test = "" if status is None else pipe.read()
        if status is None or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
            return Outcome.ENDLESS, ""
        return (Outcome.KILLED if status else Outcome.SURVIVED), test

    def _run(
        self,
        tests: list[str],
        codes: list[tuple[FunctionType, CodeType]],
        writes: int,
        processor_s: int,
    ) -> None:
        """Run the tests in the forked process; this does not return."""
        status = _KILLED
        try:
            os.setpgid(0, 0)
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (processor_s, processor_s))
            for function, code in codes:
                function.__code__ = code
            # Discard results cached by the original code, which would hide the mutant.
            for cache in self._caches:
                cache.cache_clear()
            items = [self._items[test] for test in tests]
            for item, following in zip(items, [*items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self._session.testsfailed:
                    os.write(writes, item.nodeid.encode())
                    break
            else:
                status = _HELD
        finally:
            os._exit(status)

    def _tried_fresh(self, mutant: Mutant, mutated: ast.Module) -> tuple[Outcome, str]:
        tests = self._reached.tests_of_file(mutant.file)
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))[:_FRESH_FILES]
        if not files:
            # If no test runs a line of the module (it may only define values), use its package's
            # tests.
            folder = f"tests/system/{Path(mutant.file).parts[2]}/"
            files = sorted(file for file in self._reached.files() if file.startswith(folder))
        outcome = self._in_a_fresh_process(mutant.file, mutated, files)
        if outcome is Outcome.ENDLESS:
            healthy = ast.parse((ROOT / mutant.file).read_text(encoding="utf-8"))
            if self._in_a_fresh_process(mutant.file, healthy, files) is not Outcome.SURVIVED:
                return Outcome.SURVIVED, ""
        return outcome, ""

    def _in_a_fresh_process(self, file: str, code: ast.Module, tests: list[str]) -> Outcome:
        """Return the outcome of these test files when the file is compiled from this code."""
        recorded = self._reached.seconds.items()
        seconds = sum(s for test, s in recorded if test.partition("::")[0] in tests)
        with tempfile.NamedTemporaryFile("w", suffix=".py") as changed:
            changed.write(ast.unparse(code))
            changed.flush()
            command = [sys.executable, "-m", "pytest", "-p", "tests.mutants.generated.planted"]
            # `subprocess.run` would not kill the whole process group.
            run = subprocess.Popen(
                [*command, *ARGUMENTS, "-x", *tests],
                cwd=ROOT,
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "LABKIT_MUTANT": f"{ROOT / file}={changed.name}",
                },
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                process_group=0,
            )
            try:
                status = run.wait(_FACTOR * seconds + _CLOCK_S)
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGKILL)
                run.wait()
                return Outcome.ENDLESS
        return Outcome.KILLED if status else Outcome.SURVIVED


def exchanged(
    functions: Iterable[FunctionType], file: str, source: str, mutated: ast.Module
) -> list[tuple[FunctionType, CodeType]] | None:
    """Return the functions to change, with their new code, or None if changing functions is not
    enough.
    """
    path = str(ROOT / file)
    healthy = compile(source, path, "exec", dont_inherit=True)
    changed = compile(mutated, path, "exec", dont_inherit=True)
    if not _is_same_outside(healthy, changed):
        return None
    new = dict(_pairs(healthy, changed))
    found = [
        (function, new[_key(function.__code__)])
        for function in functions
        if function.__code__.co_filename == path and _key(function.__code__) in new
    ]
    fits = all(len(f.__code__.co_freevars) == len(code.co_freevars) for f, code in found)
    return found if found and fits else None


_Key = tuple[str, int, bytes]


def _key(code: CodeType) -> _Key:
    return code.co_qualname, code.co_firstlineno, code.co_linetable


def _is_same_outside(healthy: CodeType, changed: CodeType) -> bool:
    """Return whether two modules or classes are identical apart from their functions' code."""
    if healthy.co_code != changed.co_code:
        return False
    for one, other in zip(healthy.co_consts, changed.co_consts, strict=False):
        if not isinstance(one, CodeType):
            if one != other or type(one) is not type(other):
                return False
        elif not _is_function(one) and not _is_same_outside(one, other):
            return False
    return True


def _pairs(healthy: CodeType, changed: CodeType) -> Iterator[tuple[_Key, CodeType]]:
    """Yield the outermost functions that differ."""
    inner = [code for code in healthy.co_consts if isinstance(code, CodeType)]
    others = [code for code in changed.co_consts if isinstance(code, CodeType)]
    for one, other in zip(inner, others, strict=True):
        if not _is_function(one):
            yield from _pairs(one, other)
        elif one != other:
            yield _key(one), other


def _is_function(code: CodeType) -> bool:
    """Return whether the code belongs to a function; the code of a class has no fast locals."""
    return bool(code.co_flags & inspect.CO_OPTIMIZED)


def _functions() -> Iterator[FunctionType]:
    """Yield all labkit functions in this process."""
    inside = str(ROOT / "labkit")
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(inside):
            yield each


def _caches() -> Iterator[Any]:
    """Yield all labkit functions in this process that cache their results."""
    for each in gc.get_objects():
        if isinstance(each, _CACHE) and str(each.__module__).startswith("labkit."):
            yield each


def _awaited(child: int, seconds: float) -> int | None:
    """Wait for a child process and return its status, or kill its process group and return None."""
    end = time.monotonic() + seconds
    pause_s = 0.002
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(pause_s)
        pause_s = min(0.05, pause_s * 1.5)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None
