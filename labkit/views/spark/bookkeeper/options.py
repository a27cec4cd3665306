"""Parses and checks the options of a query before anything is read.

Every error message names the option, its value, and the allowed values.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Literal

from labkit.system.metadata.location import MetadataLocation, parse_location
from labkit.system.model.errors import BKIncorrectParameterException, LabkitError
from labkit.system.model.message_id import EARLIEST, LATEST, MessageId
from labkit.system.topic.names import check_name, full_name, partition_of
from labkit.views.spark.bookkeeper.spans import starting_after, starting_at

KIB, MIB = 1 << 10, 1 << 20
_UNITS = {"": 1, "k": KIB, "m": MIB, "g": 1 << 30}
_PATTERN = re.compile(r"(persistent://[^/]+/[^/]+/)?([^/]+)")
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

    Exactly one of `topics`, `topics_pattern` and `ledgers` is set; `ledgers` contains ranges of
    ids, (first, last). `starting_ms` and `ending_ms` are -1 if the bound is not a time. If
    `max_rows_per_trigger` and `max_bytes_per_trigger` are 0, batches of a stream are unlimited. If
    `subscription` is "", the progress of a stream is not stored in a subscription.
    """

    metadata: MetadataLocation
    topics: tuple[str, ...] = ()
    topics_pattern: str = ""
    ledgers: tuple[tuple[int, int], ...] = ()
    start: Bound = "earliest"
    end: Bound = "latest"
    starting_ms: int = -1
    ending_ms: int = -1
    closed_only: bool = False
    rows_per_batch: int = 10_000
    split_bytes: int = 32 * MIB
    min_partitions: int = 1
    password: bytes = b""
    decode_values: bool = False
    storage_columns: bool = True
    fail_on_data_loss: bool = True
    retry_s: int = 120
    max_rows_per_trigger: int = 0
    max_bytes_per_trigger: int = 0
    subscription: str = ""
    admin_url: str = ""
    token: str = ""

    @property
    def has_several_topics(self) -> bool:
        return not self.ledgers and len(self.topics) != 1


_SUBJECTS = ("topic", "topics", "topicsPattern", "ledgers")
"""Exactly one of these options is required."""

_NO_GROUP = (
    "omit it: the source does not read from a broker. To keep unread messages from being deleted,"
    " use 'predefinedSubscription'"
)
_NOT_BY_BROKER = "use 'zookeeper': the source does not read from a broker"
_NO_MINIMUM = "omit it: every trigger reads what is new"
_OF_OTHER_CONNECTORS = {
    "kafka.bootstrap.servers": _NOT_BY_BROKER,
    "service.url": _NOT_BY_BROKER,
    "subscribe": "use 'topic' or 'topics'",
    "subscribepattern": "use 'topicsPattern'",
    "assign": "use 'topics', where a partition can be named as a topic, such as orders-partition-1",
    "startingoffsets": "use 'start'",
    "endingoffsets": "use 'end'",
    "startingtimestamp": "use 'startingTime'",
    "endingtimestamp": "use 'endingTime'",
    "startingoffsetsbytimestamp": "use 'startingTime', which applies to all partitions",
    "endingoffsetsbytimestamp": "use 'endingTime', which applies to all partitions",
    "maxoffsetspertrigger": "use 'maxRowsPerTrigger', which counts messages",
    "minoffsetspertrigger": _NO_MINIMUM,
    "maxtriggerdelay": _NO_MINIMUM,
    "maxrecordsperpartition": "use 'splitSize', in bytes",
    "allowdifferenttopicschemas": (
        "use 'decodeValues': each message is decoded with its own version of the schema"
    ),
    "includeheaders": "omit it: the column 'properties' is always available",
    "polltimeoutms": "use 'retrySeconds'",
    "kafkaconsumer.polltimeoutms": "use 'retrySeconds'",
    "fetchoffset.numretries": "use 'retrySeconds'",
    "fetchoffset.retryintervalms": "use 'retrySeconds'",
    "groupidprefix": _NO_GROUP,
    "kafka.group.id": _NO_GROUP,
    "subscriptionprefix": _NO_GROUP,
}
"""Options of Spark's Kafka connector and of Pulsar's connector, in lower case, and what to do
instead. Options with the same meaning have the same name here.
"""


def read_options(given: Mapping[str, str]) -> Options:
    """Parse the options of a query. Raises `OptionError` if an option is missing, unknown or
    invalid.
    """
    values = {name.lower(): text.strip() for name, text in given.items()}
    # Do not strip spaces from a password.
    values |= {name.lower(): text for name, text in given.items() if name.lower() == "password"}
    _check_names(values)
    subjects = [name for name in _SUBJECTS if values.get(name.lower())]
    if len(subjects) != 1:
        raise OptionError(
            "expected either option 'topic', 'topics' or 'topicsPattern' (one row per message), or"
            " option 'ledgers', such as '3-7,9' (one row per entry)"
        )
    options = Options(
        **{
            field: parse(name, values[name.lower()])
            for name, (field, parse) in _FIELDS.items()
            if name.lower() in values and (name in subjects or name not in _SUBJECTS)
        }
    )
    if options.topics:
        partition = partition_of(options.topics[0])
        start, end = (_in_partition(each, partition) for each in (options.start, options.end))
        options = replace(options, start=start, end=end)
    _check_bounds(options)
    _check_times(options)
    _check_subscription(options)
    if options.decode_values and options.ledgers:
        raise OptionError("option 'decodeValues' is only for topics; other ledgers have no schema")
    if options.max_rows_per_trigger and options.max_bytes_per_trigger:
        raise OptionError(
            "give only one of the options 'maxRowsPerTrigger' and 'maxBytesPerTrigger'"
        )
    return options


def _check_names(values: Mapping[str, str]) -> None:
    valid_names = {name.lower() for name in NAMES}
    for name in values:
        if name in _OF_OTHER_CONNECTORS or name.startswith(("kafka.", "pulsar.")):
            advice = _OF_OTHER_CONNECTORS.get(
                name, "omit it: the source does not read from a broker"
            )
            raise OptionError(f"option '{name}' belongs to another connector; {advice}")
        if name not in valid_names:
            raise OptionError(f"unknown option '{name}'; valid options: {', '.join(NAMES)}")
    if not values.get("zookeeper"):
        raise OptionError(
            "option 'zookeeper' is missing: expected the address of the cluster's ZooKeeper,"
            " 'host:port', or several addresses separated by commas"
        )


def _metadata_location(_: str, text: str) -> MetadataLocation:
    try:
        return parse_location(text)
    except BKIncorrectParameterException as error:
        raise OptionError(f"option 'zookeeper': {error}") from None


def _topics(option: str, text: str) -> tuple[str, ...]:
    names = text.split(",") if option == "topics" else [text]
    try:
        return tuple(dict.fromkeys(full_name(name.strip()) for name in names))
    except BKIncorrectParameterException as error:
        raise OptionError(f"option '{option}': {error}") from None


def _pattern(_: str, text: str) -> str:
    """Return the pattern with its namespace; only the short name is a regular expression."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise OptionError(
            f"option 'topicsPattern' is {text!r}; expected a regular expression for short topic"
            " names without '/', such as 'orders.*', or 'persistent://tenant/namespace/orders.*'"
        )
    try:
        re.compile(match[2])
    except re.error as error:
        raise OptionError(f"option 'topicsPattern': {match[2]!r}: {error}") from None
    return f"{match[1] or 'persistent://public/default/'}{match[2]}"


def _ledgers(_: str, text: str) -> tuple[tuple[int, int], ...]:
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


def _bound(name: str, text: str) -> Bound:
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
    return ids


def _in_partition(bound: Bound, partition: int) -> Bound:
    """Return the bound of a topic that is itself a partition (-1 if it is not).

    For such a topic, the Java producer prints partition -1, but all other clients print its index.
    """
    if isinstance(bound, str):
        return bound
    return tuple(
        replace(each, partition=partition) if each.partition < 0 else each for each in bound
    )


def _time(name: str, text: str) -> int:
    """Convert a time to milliseconds since 1970, and "" to -1."""
    if not text:
        return -1
    if re.fullmatch(r"\d+", text):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = datetime.min
    if time.tzinfo is None:
        raise OptionError(
            f"option '{name}' is {text!r}; expected milliseconds since 1970, or a time with its"
            " offset from UTC, such as '2026-05-01T12:00:00Z'"
        )
    return round(time.timestamp() * 1000)


def parse_flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise OptionError(f"option '{name}' must be 'true' or 'false', got {text!r}")
    return text.lower() == "true"


def parse_count(name: str, text: str, lowest: int = 1) -> int:
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


def _text(_: str, text: str) -> str:
    return text


_FIELDS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "zookeeper": ("metadata", _metadata_location),
    "topic": ("topics", _topics),
    "topics": ("topics", _topics),
    "topicsPattern": ("topics_pattern", _pattern),
    "ledgers": ("ledgers", _ledgers),
    "start": ("start", _bound),
    "end": ("end", _bound),
    "startingTime": ("starting_ms", _time),
    "endingTime": ("ending_ms", _time),
    "closedOnly": ("closed_only", parse_flag),
    "rowsPerBatch": ("rows_per_batch", parse_count),
    "splitSize": ("split_bytes", _size),
    "minPartitions": ("min_partitions", parse_count),
    "password": ("password", lambda _, text: text.encode()),
    "retrySeconds": ("retry_s", parse_count),
    "decodeValues": ("decode_values", parse_flag),
    "storageColumns": ("storage_columns", parse_flag),
    "maxRowsPerTrigger": ("max_rows_per_trigger", partial(parse_count, lowest=0)),
    "maxBytesPerTrigger": ("max_bytes_per_trigger", _size),
    "failOnDataLoss": ("fail_on_data_loss", parse_flag),
    "predefinedSubscription": ("subscription", _text),
    "admin.url": ("admin_url", lambda _, text: text.rstrip("/")),
    "token": ("token", _text),
}
"""For each option, the field of `Options`, and the function that parses the option's text, given
its name and text.
"""
NAMES = tuple(_FIELDS)


def _check_bounds(options: Options) -> None:
    for name, bound in (("start", options.start), ("end", options.end)):
        if isinstance(bound, str):
            continue
        if options.has_several_topics:
            raise OptionError(
                f"option '{name}': a MessageID does not say to which of several topics it belongs;"
                " use 'startingTime' and 'endingTime', or read a single topic"
            )
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


def _check_times(options: Options) -> None:
    times = (
        ("start", "startingTime", options.start, "earliest", options.starting_ms),
        ("end", "endingTime", options.end, "latest", options.ending_ms),
    )
    for by_id, by_time, bound, default, time_ms in times:
        if time_ms < 0:
            continue
        if bound != default:
            raise OptionError(f"give only one of the options '{by_id}' and '{by_time}'")
        if options.ledgers:
            raise OptionError(
                f"option '{by_time}' is only for topics, because entries of other ledgers have no"
                f" publish time; use '{by_id}'"
            )
    if 0 <= options.ending_ms < options.starting_ms:
        raise OptionError("option 'startingTime' comes after option 'endingTime'")


def _check_subscription(options: Options) -> None:
    if not options.subscription:
        for name, text in (("admin.url", options.admin_url), ("token", options.token)):
            if text:
                raise OptionError(
                    f"option '{name}' is only used with 'predefinedSubscription'; the source reads"
                    " from the bookies, not from a broker"
                )
        return
    try:
        check_name(options.subscription, "subscription")
    except BKIncorrectParameterException as error:
        raise OptionError(f"option 'predefinedSubscription': {error}") from None
    if options.ledgers:
        raise OptionError("option 'predefinedSubscription' is only for topics")
    if not options.admin_url.startswith(("http://", "https://")):
        raise OptionError(
            f"option 'admin.url' is {options.admin_url!r}; 'predefinedSubscription' needs the HTTP"
            " address of a broker, such as 'http://host:8080'"
        )
