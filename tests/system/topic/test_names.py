"""Tests for encoding names as path components in the same way as Java's `URLEncoder`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.topic.names import (
    check_name,
    check_namespace,
    decode_name,
    encode_name,
    full_name,
    managed_ledger_name,
    managed_ledger_path,
    namespace_of,
    partition_name,
    partition_of,
    partitions_path,
    shorten,
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
    assert encode_name(name) == part
    assert decode_name(part) == name


@pytest.mark.parametrize(
    "topic",
    [
        "persistent://./n/t",
        "persistent://../n/t",
        "persistent://t/./t",
        "persistent://t/../t",
        "persistent://t/n/.",
        "persistent://t/n/..",
        "persistent://t/a b/t",
        "persistent://t/n\n/t",
        "persistent://ä/n/t",
        "persistent://t/n/ ",
        "..",
        ".",
    ],
)
def test_name_that_the_store_does_not_take_is_rejected(topic: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match="is not a"):
        full_name(topic)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a/b",
        "persistent://a/b",
        "non-persistent://t/n/x",
        "persistent://t/n/",
        "x" * 3000 + "/",
    ],
)
def test_text_of_another_form_is_not_a_topic_name(name: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match="is not a topic name") as rejected:
        full_name(name)
    assert len(str(rejected.value)) < 1000


def test_names_with_dots_and_signs_are_taken() -> None:
    for topic in ("persistent://a.b/c-d=e:f_g/...", "persistent://...x/..y/h i", "..x"):
        assert full_name(topic).endswith(topic)


@pytest.mark.parametrize(
    ("end", "partition"),
    [
        ("0", 0),
        ("17", 17),
        ("007", -1),
        ("٣", -1),
        ("2147483647", 2**31 - 1),
        ("2147483648", -1),
        ("9" * 10, -1),
        ("9" * 11, -1),
        ("", -1),
    ],
)
def test_partition_is_a_number_as_java_writes_it(end: str, partition: int) -> None:
    assert partition_of(f"persistent://t/n/x-partition-{end}") == partition


@pytest.mark.parametrize("kind", ["topic", "namespace", "subscription"])
def test_name_is_taken_up_to_the_longest_and_rejected_above(kind: str) -> None:
    def take(size: int) -> None:
        if kind == "topic":
            full_name("persistent://t/n/" + "x" * (size - len("t/n/persistent/")))
        elif kind == "namespace":
            check_namespace("t/" + "n" * (size - 2))
        else:
            check_name("s" * size, kind)

    take(2048)
    with pytest.raises(BKIncorrectParameterException, match=f"the {kind} .* at most 2048 bytes"):
        take(2049)


def test_text_of_up_to_a_hundred_characters_stands_whole_in_an_error() -> None:
    assert shorten("a\nb") == r"'a\nb'"
    assert shorten("x" * 100) == repr("x" * 100)
    assert shorten("x" * 101) == f"{'x' * 80!r}... (101 characters)"


def test_topic_of_a_ledger_is_all_that_stands_behind_the_domain() -> None:
    assert topic_of_managed_ledger("t/n/persistent/a%2Fb") == "persistent://t/n/a/b"
    assert topic_of_managed_ledger("t/n/persistent/a/b") == "persistent://t/n/a/b"


@pytest.mark.parametrize(
    "namespace", ["", "t", "t/", "/n", "t/n/x", "t/./", "./n", "t/..", "t n/x", "t/n?"]
)
def test_namespace_is_a_tenant_and_a_name(namespace: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match="is not a valid namespace; write"):
        check_namespace(namespace)


@pytest.mark.parametrize("name", ["", " ", "\t", ".", ".."])
def test_name_without_a_letter_or_that_means_a_folder_is_rejected(name: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match="is not a valid subscription name"):
        check_name(name, "subscription")


def test_namespace_of_a_topic_is_its_tenant_and_namespace() -> None:
    assert namespace_of("persistent://t/n/x-partition-3") == "t/n"
    assert partition_name("persistent://t/n/x", 3) == "persistent://t/n/x-partition-3"
    assert partitions_path("persistent://t/n/a b") == (
        "/admin/partitioned-topics/t/n/persistent/a+b"
    )


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_encoded_name_is_one_part_of_a_path(name: str) -> None:
    assert "/" not in encode_name(name)
    assert decode_name(encode_name(name)) == name


def test_ledgers_metadata_name_the_topic() -> None:
    topic = full_name("my flights-partition-3")
    name = managed_ledger_name(managed_ledger_path(topic))
    assert name == "public/default/persistent/my+flights-partition-3"
    assert topic_of_managed_ledger(name) == topic
