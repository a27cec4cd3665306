from xml.etree import ElementTree

import pyarrow as pa
import pytest

from labkit.views.spark.picture import message_id_picture
from tests.views.spark.streams_by_hand import make_stream


@pytest.fixture(scope="module")
def messages() -> pa.Table:
    return make_stream(5)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter() if element.text]


def first(messages: pa.Table, is_batch: bool) -> dict[str, int]:
    return next(m for m in messages.to_pylist() if (m["batch_index"] > 0) == is_batch)


def test_the_four_numbers_are_in_the_picture(messages: pa.Table) -> None:
    message = first(messages, is_batch=True)
    shown = texts(message_id_picture(messages, message["seq"]))
    numbers = [str(message[part]) for part in ("ledger", "entry", "partition", "batch_index")]
    assert [text for text in shown if text.strip().lstrip("-").isdigit()][:4] == numbers
    assert f"ledger {message['ledger']}" in shown
    assert f"entry {message['entry']}" in shown


def test_every_partition_has_a_lane(messages: pa.Table) -> None:
    shown = texts(message_id_picture(messages, 0))
    assert {"partition 0", "partition 1", "partition 2"} <= set(shown)


def test_message_that_was_not_batched_is_the_whole_entry(messages: pa.Table) -> None:
    alone = next(m for m in messages.to_pylist() if m["batch_index"] == -1)
    assert "the whole entry is one message" in texts(message_id_picture(messages, alone["seq"]))


def test_only_the_newest_ledger_of_a_chain_is_shown_as_open(messages: pa.Table) -> None:
    rows = messages.to_pylist()
    newest = max(m["ledger"] for m in rows if (m["topic"], m["partition"]) == ("t0", 1))
    seq = next(m["seq"] for m in rows if m["ledger"] == newest and m["topic"] == "t0")
    svg = ElementTree.fromstring(message_id_picture(messages, seq))
    dashed = [element for element in svg.iter() if element.get("stroke-dasharray")]
    assert 1 <= len(dashed) <= 3


def test_a_topic_whose_name_has_markup_has_a_picture(messages: pa.Table) -> None:
    topic = "persistent://public/default/<b>&"
    at = messages.schema.get_field_index("topic")
    renamed = messages.set_column(at, "topic", pa.array([topic] * len(messages)))
    assert any(topic in text for text in texts(message_id_picture(renamed, 0)))
