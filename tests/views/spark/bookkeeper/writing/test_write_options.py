import pytest
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from labkit.views.spark.bookkeeper.options import OptionError
from labkit.views.spark.bookkeeper.writing.write_options import (
    WriteOptions,
    check_appends,
    check_columns,
    read_write_options,
)

URL = "pulsar://127.0.0.1:6650"
TOPIC = "persistent://public/default/t"


def options(*, is_stream: bool = False, **given: str) -> WriteOptions:
    return read_write_options({"service.url": URL, **given}, is_stream=is_stream)


def test_a_batch_query_writes_at_least_once_and_a_stream_exactly_once() -> None:
    assert options(topic="t") == WriteOptions(URL, TOPIC, exactly_once=False, retry_s=120)
    assert options(topic="t", is_stream=True).exactly_once


def test_options_have_no_case_and_those_of_every_stream_are_accepted() -> None:
    read = options(
        TOPIC="t",
        Token="secret",
        tlstrustcertsfilepath="/ca.pem",
        ExactlyOnce="false",
        retryseconds="7",
        checkpointLocation="/c",
        is_stream=True,
    )
    assert read == WriteOptions(URL, TOPIC, "secret", "/ca.pem", exactly_once=False, retry_s=7)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"service.url": ""}, "option 'service.url' is ''; expected the address"),
        ({"service.url": "http://h:8080"}, "option 'service.url' is 'http://h:8080'"),
        ({"zookeeper": "h:2181"}, "'zookeeper' is not an option for writing; use 'service.url'"),
        ({"kafka.bootstrap.servers": "h:9092"}, "use 'service.url'"),
        ({"topics": "a,b"}, "use 'topic', or a column 'topic'"),
        ({"kafka.acks": "all"}, "'kafka.acks' is not available; omit it: settings of the client"),
        ({"kafka.sasl.mechanism": "PLAIN"}, "'kafka.sasl.mechanism' is not available; use 'token'"),
        ({"kafka.ssl.truststore.location": "/t"}, "use 'tlsTrustCertsFilePath', with"),
        ({"start": "earliest"}, "unknown option 'start'; valid options for writing: service.url"),
        ({"checkpointLocation": "/c"}, "unknown option 'checkpointlocation'"),
        ({"topic": "a/b"}, "option 'topic': 'a/b' is not a topic name"),
        ({"retrySeconds": "0"}, "'retrySeconds' must be a whole number of at least 1"),
        ({"exactlyOnce": "true"}, "'exactlyOnce' is only for writeStream"),
    ],
)
def test_a_wrong_option_is_an_error_that_says_what_to_do(
    given: dict[str, str], message: str
) -> None:
    with pytest.raises(OptionError) as told:
        read_write_options({"service.url": URL, "topic": "t", **given}, is_stream=False)
    assert message in str(told.value)


def test_a_stream_is_told_the_values_of_exactly_once() -> None:
    with pytest.raises(OptionError, match="'exactlyOnce' must be 'true' or 'false', got 'maybe'"):
        options(topic="t", exactlyOnce="maybe", is_stream=True)


TEXT, TEXTS = StringType(), MapType(StringType(), StringType())


def check(given: WriteOptions, **columns: DataType) -> None:
    check_columns(StructType([StructField(*column) for column in columns.items()]), given)


@pytest.mark.parametrize(
    "columns",
    [
        {"value": BinaryType()},
        {"key": TEXT, "value": TEXT, "event_time": TimestampType()},
        {"value": TEXT, "event_time": LongType(), "properties": TEXTS, "topic": TEXT},
    ],
)
def test_columns_with_these_names_and_types_can_be_written(columns: dict[str, DataType]) -> None:
    check(options(topic="t"), **columns)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value": IntegerType()}, "column 'value' must have type binary or string, got int"),
        ({"key": BinaryType()}, "column 'key' must have type string, got binary"),
        ({"event_time": DateType()}, "column 'event_time' must have type timestamp or"),
        ({"properties": MapType(TEXT, IntegerType())}, "must have type map<string,string>"),
        ({"payload": BinaryType()}, "'payload' cannot be written: rename it to 'value'"),
        ({"__key": TEXT}, "rename it to 'key'"),
        ({"size": IntegerType()}, "'size' cannot be written: drop it, or add it to 'properties'"),
    ],
)
def test_a_column_that_cannot_be_written_is_an_error(
    columns: dict[str, DataType], message: str
) -> None:
    with pytest.raises(OptionError) as told:
        check(options(topic="t"), **{"value": TEXT, **columns})
    assert message in str(told.value)


def test_a_row_needs_a_value_and_a_topic_from_the_option_or_from_a_column() -> None:
    with pytest.raises(OptionError, match="column 'value' is missing"):
        check(options(topic="t"), key=TEXT)
    with pytest.raises(OptionError, match="expected option 'topic', or a column 'topic'"):
        check(options(), value=TEXT)
    check(options(), value=TEXT, topic=TEXT)


def test_a_topic_is_never_overwritten() -> None:
    check_appends(overwrite=False)
    with pytest.raises(OptionError, match="use mode"):
        check_appends(overwrite=True)
