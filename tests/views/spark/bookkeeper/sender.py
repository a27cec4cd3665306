"""Sends numbered messages as a task of a query, and reads them with the official client."""

import pulsar

from labkit.views.spark.bookkeeper.writing.messages import Message
from labkit.views.spark.bookkeeper.writing.sending import Attempt, Sender
from labkit.views.spark.bookkeeper.writing.write_options import WriteOptions
from tests.system.broker.client import rest


def messages(options: WriteOptions, count: int, key: str | None = None) -> list[Message]:
    return [Message(b"%d" % n, key, None, None, options.topic) for n in range(count)]


def write(options: WriteOptions, rows: list[Message], attempt: Attempt | None = None) -> None:
    with Sender(options, attempt) as sender:
        for row in rows:
            sender.send(row)
        sender.finish()


def interrupt(options: WriteOptions, rows: list[Message], attempt: Attempt) -> None:
    """Send the rows as a task that is interrupted before its last row."""
    with Sender(options, attempt) as sender:
        for row in rows:
            sender.send(row)


def stored(client: pulsar.Client, options: WriteOptions) -> list[int]:
    consumer = client.subscribe(
        options.topic, "all", initial_position=pulsar.InitialPosition.Earliest
    )
    try:
        return [int(payload) for payload in rest(consumer, 1000)]
    finally:
        consumer.close()
