"""The options of a query, checked once, before anything is read.

The rule: every refusal names the option, its value, and the values that are allowed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from labkit.system.metadata.place import MetadataPlace, parse_place
from labkit.system.model.errors import BKIncorrectParameterException, LabkitError
from labkit.system.model.message_id import EARLIEST, LATEST, MessageId
from labkit.system.topic.names import full_name, partition_of
from labkit.views.spark.bookkeeper.spans import beginning_at, beginning_behind

KIB, MIB = 1 << 10, 1 << 20
_UNITS = {"": 1, "k": KIB, "m": MIB, "g": 1 << 30}
_RANGE = re.compile(r"(\d+)(?:-(\d+)?)?")
NO_END = (1 << 63) - 1
"""The end of a range of ledgers such as '3-'."""

Bound = tuple[MessageId, ...] | Literal["earliest", "latest"]
"""A bound of a query: ids, one for a partition, or the first or the last message."""


class OptionError(LabkitError):
    """An option is missing, unknown, or has an impossible value."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a query reads, its bounds, and the size of its portions.

    The query reads either a `topic`, message by message, or `ledgers`, entry by entry: ranges of
    ids, first and last.  `start` and `end` are both included.  `split_bytes`: one task reads at
    most this.  `retry_s`: how long a request is repeated while ZooKeeper or the bookies cannot be
    reached.  `max_rows_per_trigger` 0: no limit.
    """

    metadata: MetadataPlace
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
    """The options of a query.  Raises `OptionError`."""
    texts = {name.lower(): text.strip() for name, text in given.items()}
    _check_names(texts)
    # As written: the other texts are stripped.
    passwords = [text for name, text in given.items() if name.lower() == "password"]
    topic, ledgers = texts.get("topic", ""), texts.get("ledgers", "")
    if bool(topic) == bool(ledgers):
        raise OptionError(
            "say what to read: either option 'topic' (a row for each message), or option 'ledgers',"
            " such as '3-7,9' (a row for each entry)"
        )
    name = _topic(topic) if topic else ""
    options = Options(
        metadata=_place(texts["zookeeper"]),
        topic=name,
        ledgers=_ledgers(ledgers) if ledgers else (),
        start=_bound("start", texts.get("start", "earliest"), partition_of(name)),
        end=_bound("end", texts.get("end", "latest"), partition_of(name)),
        closed_only=_flag("closedOnly", texts.get("closedonly", "false")),
        rows_per_batch=_count("rowsPerBatch", texts.get("rowsperbatch", "10000"), 1),
        split_bytes=_size("splitSize", texts.get("splitsize", "32m")),
        password="".join(passwords).encode(),  # Spaces around a password belong to it.
        fail_on_data_loss=_flag("failOnDataLoss", texts.get("failondataloss", "true")),
        retry_s=_count("retrySeconds", texts.get("retryseconds", "120"), 1),
        max_rows_per_trigger=_count("maxRowsPerTrigger", texts.get("maxrowspertrigger", "0"), 0),
    )
    _check_bounds(options)
    return options


def _check_names(texts: Mapping[str, str]) -> None:
    known = {name.lower() for name in _NAMES}
    for name in texts:
        if name not in known:
            raise OptionError(f"option '{name}' is unknown; there are {', '.join(_NAMES)}")
    if not texts.get("zookeeper"):
        raise OptionError(
            "option 'zookeeper' is missing: the address of the cluster's ZooKeeper, 'host:port',"
            " several with commas"
        )


def _place(text: str) -> MetadataPlace:
    try:
        return parse_place(text)
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
            raise OptionError(f"option 'ledgers': '{part.strip()}' ends before it begins")
        if not match:
            raise OptionError(
                f"option 'ledgers' is {text!r}; write ids and ranges of ids, such as '3', '3-7,9'"
                " or '3-'"
            )
        ranges.append((first, last))
    return tuple(ranges)


def _bound(name: str, text: str, partition: int) -> Bound:
    """The option's ids; `partition` is that of a topic that is itself a partition, else -1."""
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    try:
        ids = tuple(MessageId.parse(part.strip()) for part in text.split(","))
    except BKIncorrectParameterException as error:
        raise OptionError(f"option '{name}': {error}; or 'earliest', or 'latest'") from None
    if ids == (EARLIEST,):
        return "earliest"
    if ids == (LATEST,):
        return "latest"
    # Of such a topic Java's producer prints -1, and all other clients print the partition.
    return tuple(replace(each, partition=partition) if each.partition < 0 else each for each in ids)


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise OptionError(f"option '{name}' is {text!r}; write 'true' or 'false'")
    return text.lower() == "true"


def _count(name: str, text: str, lowest: int) -> int:
    if not re.fullmatch(r"\d+", text) or int(text) < lowest:
        raise OptionError(f"option '{name}' is {text!r}; write a whole number from {lowest} on")
    return int(text)


def _size(name: str, text: str) -> int:
    match = re.fullmatch(r"(\d+)([kmg]?)b?", text.lower())
    size = int(match[1]) * _UNITS[match[2]] if match else 0
    if size < 1:
        raise OptionError(f"option '{name}' is {text!r}; write a size such as '32m' or '64k'")
    return size


def _check_bounds(options: Options) -> None:
    for name, bound in (("start", options.start), ("end", options.end)):
        if isinstance(bound, str):
            continue
        partitions = [message_id.partition for message_id in bound]
        if options.ledgers and partitions != [-1]:
            raise OptionError(
                f"option '{name}': of ledgers, write one id with -1 as partition,"
                f" such as '{bound[0].ledger_id}:{bound[0].entry_id}:-1:-1'"
            )
        if len(set(partitions)) < len(partitions):
            raise OptionError(f"option '{name}' has two ids of one partition; write one of each")
    starts = () if isinstance(options.start, str) else options.start
    ends = {} if isinstance(options.end, str) else {each.partition: each for each in options.end}
    for start in starts:
        end = ends.get(start.partition)
        if end is not None and beginning_at(start) >= beginning_behind(end):
            raise OptionError(f"option 'start': {start} comes after option 'end': {end}")
    if options.end == "earliest":
        raise OptionError("option 'end' is 'earliest': nothing precedes that; write 'latest'")
