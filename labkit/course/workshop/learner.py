"""The learner's parts as labkit uses them: each call is looked at, and its first error is kept.

Inside a simulated world an error ends only the task in which it was raised.  So the first error of
the learner's code is kept here, and raised again once the run has ended.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from labkit.course.checking.exercise import Refused, fits, name_of, plain
from labkit.system.model.errors import LabkitError
from labkit.worlds.sim.machine.disk import CrashError

_OF_THE_WORLD = (OSError, CrashError, LabkitError, asyncio.CancelledError, GeneratorExit)
"""What the world does to the learner's code, the end of its node included: it passes through."""


class Learner:
    """A learner's file, loaded.

    seeds: under how many seeds the cluster is tried.
    parts: the names of those parts that are written; labkit's own stand in for the others.
    """

    def __init__(self, file: Path, module: ModuleType, seeds: int) -> None:
        self.file = file
        self.module = module
        self.seeds = seeds
        self.parts: tuple[str, ...] = ()
        self.error: BaseException | None = None

    def part(self, name: str) -> Any:
        """What the file defines under that name.  Raises `Refused` if it defines nothing."""
        part = getattr(self.module, name, None)
        if part is None:
            raise Refused(
                f"{self.file.name} has no `{name}`; the skeleton shows what it must look like."
            )
        return part

    def make(self, name: str, *arguments: Any) -> "Yours":
        """An object of the learner's class of that name."""
        with self.noting():
            return Yours(self, self.part(name)(*arguments))

    def call(self, name: str, returns: Any, *arguments: Any) -> Any:
        """What the learner's function of that name returns."""
        return self.checked(name, self.part(name), returns, arguments)

    def checked(
        self,
        name: str,
        function: Any,
        returns: Any,
        arguments: tuple[Any, ...],
        may_raise: tuple[type[Exception], ...] = (),
    ) -> Any:
        """What a function of the learner's returns; it must fit the annotation `returns`."""
        with self.noting(may_raise):
            result = plain(function(*arguments))
            if not fits(result, returns):
                hint = "; is there a `return`?" if result is None else f" ({result!r:.60})."
                raise Refused(
                    f"{name} must return {name_of(returns)}; yours returned"
                    f" {type(result).__name__}{hint}"
                )
            return result

    @contextmanager
    def noting(self, may_raise: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Keep the first error that the learner's code raises inside; later calls raise it too.

        may_raise: what its contract says that it raises.
        """
        if self.error is not None:
            raise self.error
        passing: tuple[type[BaseException], ...] = (*_OF_THE_WORLD, *may_raise)
        try:
            yield
        except passing:
            raise
        except BaseException as error:
            # A loop that was stopped raises what Python does not count as an exception.
            self.error = error
            raise


class Yours:
    """An object of the learner's."""

    def __init__(self, learner: Learner, thing: Any) -> None:
        self._learner = learner
        self._thing = thing

    def call(self, method: str, returns: Any, *arguments: Any) -> Any:
        """What the method returns.  Raises `Refused` if it is missing or returns something else."""
        return self._learner.checked(
            f"{type(self._thing).__name__}.{method}", self.get(method), returns, arguments
        )

    def get(self, attribute: str) -> Any:
        """The value of an attribute.  Raises `Refused` if it is missing."""
        with self._learner.noting():
            if not hasattr(self._thing, attribute):
                kind = type(self._thing).__name__
                raise Refused(f"Your {kind} has no `{attribute}`; the skeleton shows what it is.")
            return getattr(self._thing, attribute)

    def set(self, attribute: str, value: Any) -> None:
        """Give an attribute a value."""
        with self._learner.noting():
            setattr(self._thing, attribute, value)
