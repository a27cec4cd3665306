"""Parses and checks the options of a query before anything is read.

Every error message gives the option, its value, and the values that are allowed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from labkit.system.metadata.location import MetadataLocation, parse_location
from labkit.system.model.errors import BKIncorrectParameterException, LabkitError
from labkit.system.model.message_id import EARLIEST, LATEST, MessageId
from labkit.system.topic.names import full_name, partition_of
from labkit.views.spark.bookkeeper.spans import starting_after, starting_at

KIB, MIB = 1 << 10, 1 << 20
_UNITS = {"": 1, "k": KIB, "m": MIB, "g": 1 << 30}
_RANGE = re.compile(r"(\d+)(?:-(\d+)?)?")
NO_END = (1 << 63) - 1
"""The end of an open range of ledgers, such as '3-'."""

Bound = tuple[MessageId, ...] | Literal["earliest", "latest"]
"""The start or end of a query: an id for each partition, or the first or the last message."""


class OptionError(LabkitError):
    """An option is missing, unknown or invalid."""


@dataclass(frozen=True, slots=True)
class Options:
    """The checked options of a query; `labkit.views.spark.bookkeeper` describes each of them.

    Either `topic` or `ledgers` is set; `ledgers` contains ranges of ids, (first, last).  If
    `max_rows_per_trigger` is 0, batches of a stream are unlimited.
    """

    metadata: MetadataLocation
    topic: str = ""
    ledgers: tuple[tuple[int, int], ...] = ()
    start: Bound = "earliest"
    end: Bound = "latest"
    closed_only: bool = False
    rows_per_batch: int = 10_000
    split_bytes: int = 32 * MIB
    password: bytes = b""
    fail_on_data_loss: bool = True
    retry_s: int = 120
    max_rows_per_trigger: int = 0


_NAMES = (
    *("zookeeper", "topic", "ledgers", "start", "end", "closedOnly", "rowsPerBatch", "splitSize"),
    *("password", "failOnDataLoss", "retrySeconds", "maxRowsPerTrigger"),
)


def read_options(given: Mapping[str, str]) -> Options:
    """Parse the options of a query. Raises `OptionError`."""
    values = {name.lower(): text.strip() for name, text in given.items()}
    _check_names(values)
    # Take the password from the original options, because the values in `given` are stripped.
    passwords = [text for name, text in given.items() if name.lower() == "password"]
    topic, ledgers = values.get("topic", ""), values.get("ledgers", "")
    if bool(topic) == bool(ledgers):
        raise OptionError(
            "expected either option 'topic' (one row per message) or option 'ledgers', such as"
            " '3-7,9' (one row per entry)"
        )
    name = _topic(topic) if topic else ""
    options = Options(
        metadata=_metadata_location(values["zookeeper"]),
        topic=name,
        ledgers=_ledgers(ledgers) if ledgers else (),
        start=_bound("start", values.get("start", "earliest"), partition_of(name)),
        end=_bound("end", values.get("end", "latest"), partition_of(name)),
        closed_only=_flag("closedOnly", values.get("closedonly", "false")),
        rows_per_batch=_count("rowsPerBatch", values.get("rowsperbatch", "10000"), 1),
        split_bytes=_size("splitSize", values.get("splitsize", "32m")),
        password="".join(passwords).encode(),
        fail_on_data_loss=_flag("failOnDataLoss", values.get("failondataloss", "true")),
        retry_s=_count("retrySeconds", values.get("retryseconds", "120"), 1),
        max_rows_per_trigger=_count("maxRowsPerTrigger", values.get("maxrowspertrigger", "0"), 0),
    )
    _check_bounds(options)
    return options


def _check_names(values: Mapping[str, str]) -> None:
    valid_names = {name.lower() for name in _NAMES}
    for name in values:
        if name not in valid_names:
            raise OptionError(f"unknown option '{name}'; valid options: {', '.join(_NAMES)}")
    if not values.get("zookeeper"):
        raise OptionError(
            "option 'zookeeper' is missing: expected the address of the cluster's ZooKeeper,"
            " 'host:port', or several addresses separated by commas"
        )


def _metadata_location(text: str) -> MetadataLocation:
    try:
        return parse_location(text)
    except BKIncorrectParameterException as error:
        raise OptionError(f"option 'zookeeper': {error}") from None


def _topic(text: str) -> str:
    try:
        return full_name(text)
    except BKIncorrectParameterException as error:
        raise OptionError(f"option 'topic': {error}") from None


def _ledgers(text: str) -> tuple[tuple[int, int], ...]:
    ranges = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        first = int(match[1]) if match else -1
        last = first
        if match and "-" in part:
            last = int(match[2]) if match[2] else NO_END
        if match and last < first:
            raise OptionError(f"option 'ledgers': range '{part.strip()}' ends before it starts")
        if not match:
            raise OptionError(
                f"option 'ledgers' is {text!r}; expected ids or ranges of ids, such as '3', '3-7,9'"
                " or '3-'"
            )
        ranges.append((first, last))
    return tuple(ranges)


def _bound(name: str, text: str, partition: int) -> Bound:
    """Parse the option.

    `partition` is the topic's index if the topic is itself a partition, else -1.
    """
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    try:
        ids = tuple(MessageId.parse(part.strip()) for part in text.split(","))
    except BKIncorrectParameterException as error:
        raise OptionError(f"option '{name}': {error}, or 'earliest' or 'latest'") from None
    if ids == (EARLIEST,):
        return "earliest"
    if ids == (LATEST,):
        return "latest"
    # For such a topic, the Java producer prints -1, while all other clients print the partition.
    return tuple(replace(each, partition=partition) if each.partition < 0 else each for each in ids)


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise OptionError(f"option '{name}' must be 'true' or 'false', got {text!r}")
    return text.lower() == "true"


def _count(name: str, text: str, lowest: int) -> int:
    if not re.fullmatch(r"\d+", text) or int(text) < lowest:
        raise OptionError(
            f"option '{name}' must be a whole number of at least {lowest}, got {text!r}"
        )
    return int(text)


def _size(name: str, text: str) -> int:
    match = re.fullmatch(r"(\d+)([kmg]?)b?", text.lower())
    size = int(match[1]) * _UNITS[match[2]] if match else 0
    if size < 1:
        raise OptionError(f"option '{name}' must be a size such as '32m' or '64k', got {text!r}")
    return size


def _check_bounds(options: Options) -> None:
    for name, bound in (("start", options.start), ("end", options.end)):
        if isinstance(bound, str):
            continue
        partitions = [message_id.partition for message_id in bound]
        if options.ledgers and partitions != [-1]:
            raise OptionError(
                f"option '{name}': to read ledgers, give one id with partition -1, such as"
                f" '{bound[0].ledger_id}:{bound[0].entry_id}:-1:-1'"
            )
        if len(set(partitions)) < len(partitions):
            raise OptionError(
                f"option '{name}' contains several ids of the same partition; give at most one each"
            )
    starts = () if isinstance(options.start, str) else options.start
    ends = {} if isinstance(options.end, str) else {each.partition: each for each in options.end}
    for start in starts:
        end = ends.get(start.partition)
        if end is not None and starting_at(start) >= starting_after(end):
            raise OptionError(f"option 'start': {start} comes after option 'end': {end}")
    if options.end == "earliest":
        raise OptionError(
            "option 'end' cannot be 'earliest', because nothing precedes it; use 'latest'"
        )
