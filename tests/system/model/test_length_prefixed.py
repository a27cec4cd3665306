import struct

from hypothesis import given
from hypothesis import strategies as st

from labkit.system.model.length_prefixed import join_with_lengths, join_with_lengths_in_parts

SAME_SIZE = st.integers(0, 30).flatmap(
    lambda size: st.lists(st.binary(min_size=size, max_size=size), max_size=20)
)


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
    assert [*join_with_lengths_in_parts(bodies, size)] == [*map(join_with_lengths, parts)]
