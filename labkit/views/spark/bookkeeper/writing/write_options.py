"""Parses and checks the options and columns of a write query.

Every error message names the option or column, and says what is allowed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import StructType

from labkit.system.model.errors import BKIncorrectParameterException, LabkitError
from labkit.system.topic.names import full_name
from labkit.views.spark.bookkeeper.options import OptionError, parse_count, parse_flag

COLUMNS = {
    "value": ("binary", "string"),
    "key": ("string",),
    "event_time": ("timestamp", "timestamp_ltz", "bigint"),
    "properties": ("map<string,string>",),
    "topic": ("string",),
}
"""The columns that a query can write, and the types that each column may have."""


class WriteError(LabkitError):
    """Rows could not be written."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The checked options; `topic` is "" if the column `topic` names the topic of each row."""

    service_url: str
    topic: str = ""
    token: str = ""
    tls_trust_certs: str = ""
    exactly_once: bool = False
    retry_s: int = 120


NAMES = "service.url", "topic", "token", "tlsTrustCertsFilePath", "exactlyOnce", "retrySeconds"
_OF_SPARK = ("checkpointlocation", "queryname")
"""Options that Spark passes on for every streaming query."""

_BY_BROKER = "use 'service.url': the broker's address, such as pulsar://host:6650"
_OF_READERS_AND_OTHER_CONNECTORS = {
    "zookeeper": _BY_BROKER,
    "kafka.bootstrap.servers": _BY_BROKER,
    "admin.url": _BY_BROKER,
    "topics": "use 'topic', or a column 'topic'",
    "includeheaders": "omit it: a column 'properties' is always written",
    "kafka.delivery.timeout.ms": "use 'retrySeconds'",
    "pulsar.producer.sendtimeoutms": "use 'retrySeconds'",
    "pulsar.client.authparams": "use 'token'",
    "pulsar.client.tlstrustcertsfilepath": "use 'tlsTrustCertsFilePath'",
}
_OF_CLIENTS = {
    "kafka.sasl.": "use 'token'",
    "kafka.ssl.": "use 'tlsTrustCertsFilePath', with a 'service.url' that starts with pulsar+ssl://",
    "kafka.": "omit it: settings of the client cannot be changed",
    "pulsar.": "omit it: settings of the client cannot be changed",
}
"""Prefixes of other options, longest first, and what to do instead."""
_OTHER_COLUMNS = {
    "payload": "value",
    "headers": "properties",
    "timestamp": "event_time",
    "__key": "key",
    "__eventTime": "event_time",
    "__topic": "topic",
}
"""Columns of readers and other connectors, and the column with the same meaning."""


def read_write_options(given: Mapping[str, str], *, is_stream: bool) -> WriteOptions:
    """Parse the options of a write query. Raises `OptionError` if one is missing, unknown or
    invalid.
    """
    values = {name.lower(): text.strip() for name, text in given.items()}
    for name in values:
        if name in _OF_READERS_AND_OTHER_CONNECTORS:
            advice = _OF_READERS_AND_OTHER_CONNECTORS[name]
            raise OptionError(f"option '{name}' is not an option for writing; {advice}")
        for prefix, advice in _OF_CLIENTS.items():
            if name.startswith(prefix):
                raise OptionError(f"option '{name}' is not available; {advice}")
        valid_names = [valid.lower() for valid in NAMES]
        if name not in valid_names and not (is_stream and name in _OF_SPARK):
            raise OptionError(
                f"unknown option '{name}'; valid options for writing: {', '.join(NAMES)}"
            )
    service_url = values.get("service.url", "")
    if not service_url.startswith(("pulsar://", "pulsar+ssl://")):
        raise OptionError(
            f"option 'service.url' is {service_url!r}; expected the address of one or several"
            " brokers, such as 'pulsar://host:6650' or 'pulsar://host:6650,other:6650'"
        )
    if not is_stream and "exactlyonce" in values:
        raise OptionError(
            "option 'exactlyOnce' is only for writeStream; a batch query writes each row at least"
            " once"
        )
    try:
        topic = full_name(values["topic"]) if "topic" in values else ""
    except BKIncorrectParameterException as error:
        raise OptionError(f"option 'topic': {error}") from None
    return WriteOptions(
        service_url,
        topic,
        token=values.get("token", ""),
        tls_trust_certs=values.get("tlstrustcertsfilepath", ""),
        exactly_once=parse_flag("exactlyOnce", values.get("exactlyonce", str(is_stream))),
        retry_s=parse_count("retrySeconds", values.get("retryseconds", "120")),
    )


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """Raise `OptionError` unless the rows can be written."""
    for field in schema.fields:
        types, actual = COLUMNS.get(field.name), field.dataType.simpleString()
        if types is None:
            other = _OTHER_COLUMNS.get(field.name)
            advice = f"rename it to '{other}'" if other else "drop it, or add it to 'properties'"
            raise OptionError(
                f"column '{field.name}' cannot be written: {advice}; the columns are"
                f" {', '.join(COLUMNS)}"
            )
        if actual not in types:
            raise OptionError(
                f"column '{field.name}' must have type {' or '.join(types)}, got {actual}"
            )
    if "value" not in schema.names:
        raise OptionError("column 'value' is missing: expected the payload, as binary or string")
    if not options.topic and "topic" not in schema.names:
        raise OptionError(
            "no topic: expected option 'topic', or a column 'topic' with the topic of each row"
        )


def check_appends(overwrite: bool) -> None:
    """Raise `OptionError` if the query would have to delete the topic's contents."""
    if overwrite:
        raise OptionError(
            "messages can only be appended to a topic: use mode('append'), or for a stream"
            " outputMode('append') or outputMode('update')"
        )
