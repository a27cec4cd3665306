"""Names as parts of paths, as Java's `URLEncoder` writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.topic.names import (
    decoded,
    encoded,
    full_name,
    managed_ledger_name,
    managed_ledger_path,
    topic_of_managed_ledger,
)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("a b", "a+b"),
        ("a+b", "a%2Bb"),
        ("a/b:c", "a%2Fb%3Ac"),
        ("a*b~c", "a*b%7Ec"),
        ("a-b_c.d", "a-b_c.d"),
        ("ä", "%C3%A4"),
    ],
)
def test_name_is_written_as_java_writes_it(name: str, part: str) -> None:
    assert encoded(name) == part
    assert decoded(part) == name


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_encoded_name_is_one_part_of_a_path(name: str) -> None:
    assert "/" not in encoded(name)
    assert decoded(encoded(name)) == name


def test_ledgers_metadata_name_the_topic() -> None:
    topic = full_name("my flights-partition-3")
    name = managed_ledger_name(managed_ledger_path(topic))
    assert name == "public/default/persistent/my+flights-partition-3"
    assert topic_of_managed_ledger(name) == topic
