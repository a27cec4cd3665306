"""Calls the learner's parts for labkit, checks every result, and keeps the first error.

Inside a simulation, an exception ends only the task that raised it. Therefore, this module keeps
the first exception that the learner's code raises, and raises it again after the run has ended.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from labkit.course.checking.annotations import annotation_name, matches_annotation
from labkit.course.checking.plain_values import without_numpy
from labkit.course.checking.refused import Refused
from labkit.system.model.errors import LabkitError
from labkit.worlds.sim.machine.disk import CrashError

_OF_THE_WORLD = (OSError, CrashError, LabkitError, asyncio.CancelledError, GeneratorExit)
"""Exceptions that the simulation raises inside the learner's code, for example when its node is
killed; they are passed on.
"""


class Learner:
    """A learner's file after it has been loaded.

    seeds: the number of seeds with which the cluster is tested
    parts: the names of the parts that the learner has written; labkit uses its own versions of the
        other parts
    """

    def __init__(self, file: Path, module: ModuleType, seeds: int) -> None:
        self.file = file
        self.module = module
        self.seeds = seeds
        self.parts: tuple[str, ...] = ()
        self.error: BaseException | None = None

    def part(self, name: str) -> Any:
        """Return the object that the file defines under this name. Raises `Refused` if the name is
        not defined.
        """
        part = getattr(self.module, name, None)
        if part is None:
            raise Refused(
                f"{self.file.name} has no `{name}`; the skeleton shows what it must look like."
            )
        return part

    def make(self, name: str, *arguments: Any) -> "LearnersObject":
        with self.recording_errors():
            return LearnersObject(self, self.part(name)(*arguments))

    def call(self, name: str, returns: Any, *arguments: Any) -> Any:
        return self.checked(name, self.part(name), returns, arguments)

    def checked(
        self,
        name: str,
        function: Any,
        returns: Any,
        arguments: tuple[Any, ...],
        may_raise: tuple[type[Exception], ...] = (),
    ) -> Any:
        """Call one of the learner's functions, and check that its result matches the annotation
        `returns`.
        """
        with self.recording_errors(may_raise):
            result = without_numpy(function(*arguments))
            if not matches_annotation(result, returns):
                hint = "; is there a `return`?" if result is None else f" ({result!r:.60})."
                raise Refused(
                    f"{name} must return {annotation_name(returns)}; yours returned"
                    f" {type(result).__name__}{hint}"
                )
            return result

    @contextmanager
    def recording_errors(self, may_raise: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Record the first exception that the learner's code raises; later calls re-raise it.

        may_raise: exceptions that the contract of the part allows; they are not recorded.
        """
        if self.error is not None:
            raise self.error
        passing: tuple[type[BaseException], ...] = (*_OF_THE_WORLD, *may_raise)
        try:
            yield
        except passing:
            raise
        except BaseException as error:
            # Stopping an endless loop raises a BaseException that is not an Exception.
            self.error = error
            raise


class LearnersObject:
    def __init__(self, learner: Learner, wrapped: Any) -> None:
        self._learner = learner
        self._wrapped = wrapped

    def call(self, method: str, returns: Any, *arguments: Any) -> Any:
        """Call the method and return its result.

        Raises `Refused` if the method is missing or its result has the wrong type.
        """
        return self._learner.checked(
            f"{type(self._wrapped).__name__}.{method}", self.get(method), returns, arguments
        )

    def get(self, attribute: str) -> Any:
        """Return the value of an attribute. Raises `Refused` if the attribute is missing."""
        with self._learner.recording_errors():
            if not hasattr(self._wrapped, attribute):
                kind = type(self._wrapped).__name__
                raise Refused(f"Your {kind} has no `{attribute}`; the skeleton shows what it is.")
            return getattr(self._wrapped, attribute)

    def set(self, attribute: str, value: Any) -> None:
        with self._learner.recording_errors():
            setattr(self._wrapped, attribute, value)
