import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.model.length_prefixed import (
    EqualBodies,
    equal_bodies,
    join_in_parts,
    join_with_lengths,
)

SAME_SIZE = st.integers(0, 30).flatmap(
    lambda size: st.lists(st.binary(min_size=size, max_size=size), max_size=20)
)


def block_of(bodies: list[bytes]) -> EqualBodies:
    found = equal_bodies(memoryview(join_with_lengths(bodies)), len(bodies))
    assert found is not None
    return found


@given(SAME_SIZE | st.lists(st.binary(max_size=30)))
def test_each_body_stands_behind_its_length(bodies: list[bytes]) -> None:
    expected = b"".join(struct.pack(">I", len(body)) + body for body in bodies)
    assert join_with_lengths(bodies) == expected


@given(SAME_SIZE | st.lists(st.binary(max_size=30)), st.integers(1, 60))
def test_a_part_takes_the_next_body_unless_it_is_full(bodies: list[bytes], size: int) -> None:
    parts: list[list[bytes]] = []
    for body in bodies:
        if not parts or sum(map(len, parts[-1])) + len(body) > size:
            parts.append([])
        parts[-1].append(body)
    assert [*join_in_parts(bodies, size)] == [*map(join_with_lengths, parts)]


@given(SAME_SIZE.filter(lambda bodies: len(bodies) >= 4), st.binary(max_size=3))
def test_bodies_of_one_size_are_one_block_and_the_same_bytes(
    bodies: list[bytes], half_a_length: bytes
) -> None:
    data = memoryview(join_with_lengths(bodies) + half_a_length)
    found = equal_bodies(data, len(bodies))
    assert found is not None
    assert (len(found), [*found]) == (len(bodies), bodies)
    assert [found[at] for at in range(-len(bodies), len(bodies))] == bodies * 2
    assert found[1:3] == bodies[1:3]
    with pytest.raises(IndexError):
        found[len(bodies)]


@given(st.lists(st.binary(max_size=3), min_size=4), st.integers(1, 20))
def test_bodies_of_several_sizes_make_no_block(bodies: list[bytes], most: int) -> None:
    found = equal_bodies(memoryview(join_with_lengths(bodies)), most)
    if found is not None:
        assert {len(body) for body in bodies[: len(found)]} == {found.size}
        assert [*found] == bodies[: len(found)]
        assert len(found) <= most


@pytest.mark.parametrize("data", [b"", bytes(3), struct.pack(">I", 5) + bytes(4), b"\xff" * 40])
def test_half_a_body_makes_no_block(data: bytes) -> None:
    assert equal_bodies(memoryview(data), 256) is None


def test_columns_are_the_fields_that_each_body_begins_with() -> None:
    bodies = block_of([struct.pack(">iq", number, -number) + b"rest" for number in range(5)])
    assert [*bodies.columns("iq")] == [(number, -number) for number in range(5)]
    assert [*bodies.columns("4xq", rest=True)] == [(-number, b"rest") for number in range(5)]


def test_columns_of_bodies_that_are_too_short_are_refused() -> None:
    with pytest.raises(struct.error):
        block_of([b"short"] * 4).columns("q")


def test_bodies_of_a_block_outlive_its_buffer() -> None:
    buffer = bytearray(join_with_lengths([b"one", b"two", b"six", b"ten"]))
    found = equal_bodies(memoryview(buffer), 4)
    assert found is not None
    kept = [*found, found[0]]
    buffer[:] = bytes(len(buffer))
    assert kept == [b"one", b"two", b"six", b"ten", b"one"]
