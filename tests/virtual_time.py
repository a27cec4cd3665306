"""Run async tests in virtual time, in a simulated world or without one."""

from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import signature
from typing import Concatenate, ParamSpec, TypeVar

from labkit.worlds.sim.machine.loop import SimLoop

P = ParamSpec("P")
T = TypeVar("T")

_TIME_LIMIT_S = 86_400
"""Long enough for tests that simulate several hours."""


def in_virtual_time(rule: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run an async test on a loop of its own, whose time starts at 0."""

    @wraps(rule)
    def test(*args: P.args, **kwargs: P.kwargs) -> None:
        async def main() -> None:
            await rule(*args, **kwargs)

        SimLoop(time_limit_s=_TIME_LIMIT_S).run(main())

    return test


def in_world(
    run: Callable[[Callable[[T], Awaitable[None]]], object],
) -> Callable[[Callable[Concatenate[T, P], Awaitable[None]]], Callable[P, None]]:
    """Return a decorator for async tests. `run` runs these tests, and provides their first
    argument.
    """

    def decorate(rule: Callable[Concatenate[T, P], Awaitable[None]]) -> Callable[P, None]:
        @wraps(rule)
        def test(*args: P.args, **kwargs: P.kwargs) -> None:
            run(lambda provided: rule(provided, *args, **kwargs))

        _, *others = signature(rule).parameters.values()
        # Otherwise, pytest would look for a fixture with the name of the first parameter.
        test.__signature__ = signature(rule).replace(parameters=others)  # type: ignore[attr-defined]
        return test

    return decorate
