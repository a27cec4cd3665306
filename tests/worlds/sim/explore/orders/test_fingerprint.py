"""A fingerprint of memory distinguishes different states and ignores irrelevant differences."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from labkit.worlds.sim.explore.orders.fingerprint import fingerprint
from labkit.worlds.sim.machine.loop import SimLoop


class Thing:
    def __init__(self, **fields: object) -> None:
        self.__dict__.update(fields)


def ring(length: int) -> list[Any]:
    """Return nested lists, the innermost of which contains the outermost."""
    first: list[Any] = []
    last = first
    for _ in range(length - 1):
        last.append([])
        last = last[0]
    last.append(first)
    return first


def counter(start: int) -> Callable[[], int]:
    return lambda: start


@pytest.mark.parametrize(
    "make",
    [
        lambda: Thing(a=1, b=[b"x", None]),
        lambda: {"b": 1, "a": {2, 1}},
        lambda: ring(3),
        lambda: partial(print, 1, end=""),
        lambda: counter(3),
        lambda: deque([counter(1), [].append]),
        lambda: ValueError("wrong", 3),
    ],
)
def test_things_made_alike_are_alike(make: Callable[[], object]) -> None:
    assert fingerprint([make()]) == fingerprint([make()])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Thing(a=1), Thing(a=2)),
        (Thing(a=1), Thing(b=1)),
        ([1, 2], [2, 1]),
        ([1, 2], (1, 2)),
        ([[], []], [[[]]]),
        (ring(2), ring(3)),
        (counter(1), counter(2)),
        (partial(print, 1), partial(print, 2)),
        (ValueError("one"), ValueError("other")),
        (True, 1),
    ],
)
def test_things_that_differ_are_told_apart(one: object, other: object) -> None:
    assert fingerprint([one]) != fingerprint([other])


def test_one_object_twice_is_not_two_that_are_equal() -> None:
    shared: list[int] = []
    assert fingerprint([[shared, shared]]) != fingerprint([[[], []]])


def test_times_and_the_order_of_keys_do_not_count() -> None:
    assert fingerprint([Thing(at=1.5)]) == fingerprint([Thing(at=2.5)])
    assert fingerprint([{"a": 1, "b": 2}]) == fingerprint([{"b": 2, "a": 1}])


async def _add(numbers: "asyncio.Queue[int]", total: int) -> int:
    total += await numbers.get()
    total += await numbers.get()
    return total


def test_a_suspended_coroutine_is_its_place_and_its_variables() -> None:
    async def after(*numbers: int, total: int = 0) -> bytes:
        queue: asyncio.Queue[int] = asyncio.Queue()
        task = asyncio.create_task(_add(queue, total))
        for number in numbers:
            queue.put_nowait(number)
        await asyncio.sleep(1)
        return fingerprint([task])

    def of(body: Coroutine[Any, Any, bytes]) -> bytes:
        return SimLoop().run(body)

    assert of(after(1)) == of(after(1))
    assert of(after(1)) == of(after(0, total=1))
    assert of(after(1)) != of(after(2))
    assert of(after()) != of(after(0))
    assert of(after(1, 2)) == of(after(2, 1))
