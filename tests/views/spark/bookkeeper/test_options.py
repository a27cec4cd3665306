import pytest

from labkit.system.metadata.location import MetadataLocation
from labkit.system.model.message_id import MessageId
from labkit.views.spark.bookkeeper.options import MIB, OptionError, Options, read_options

ZOOKEEPER = "127.0.0.1:2181"


def options(**given: str) -> Options:
    return read_options({"zookeeper": ZOOKEEPER, **given})


def test_a_short_topic_name_is_made_full() -> None:
    assert options(topic="orders").topics == ("persistent://public/default/orders",)


def test_ledgers_are_ids_and_ranges() -> None:
    assert options(ledgers="3, 5-7,9-").ledgers == ((3, 3), (5, 7), (9, 2**63 - 1))


def test_names_of_options_have_no_case_as_spark_gives_them_in_lower_case() -> None:
    assert options(topic="t", SPLITSIZE="64k", maxrowspertrigger="5") == Options(
        MetadataLocation(ZOOKEEPER),
        ("persistent://public/default/t",),
        split_bytes=64 * 1024,
        max_rows_per_trigger=5,
    )


def test_a_cluster_below_another_path_is_named_by_its_uri() -> None:
    read = read_options({"zookeeper": "zk+null://h:1/a/ledgers", "topic": "t"})
    assert read.metadata == MetadataLocation("h:1", "/a")


def test_a_password_keeps_its_spaces() -> None:
    assert options(topic="t", PASSWORD=" secret ").password == b" secret "


def test_bounds_are_ids_one_for_each_partition() -> None:
    read = options(topic="t", start="3:4:0:-1,5:6:1:2", end="9:0:0:-1")
    assert read.start == (MessageId(3, 4, 0), MessageId(5, 6, 1, 2))
    assert read.end == (MessageId(9, 0, 0),)


@pytest.mark.parametrize("printed", ["3:4:1:-1", "3:4:-1:-1"])
def test_ids_of_a_partition_that_is_named_as_a_topic_are_those_that_clients_print(
    printed: str,
) -> None:
    """Java's producer prints -1; its consumer and the clients in other languages print 1."""
    read = options(topic="t-partition-1", start=printed, end=printed)
    assert (read.start, read.end) == ((MessageId(3, 4, 1),), (MessageId(3, 4, 1),))


def test_topics_are_a_list_without_repetitions() -> None:
    assert options(topics="a, b,persistent://public/default/a").topics == (
        "persistent://public/default/a",
        "persistent://public/default/b",
    )


def test_a_pattern_without_a_namespace_belongs_to_the_default_namespace() -> None:
    assert options(topicsPattern="o.*").topics_pattern == "persistent://public/default/o.*"
    whole = "persistent://shop/eu/o(rders)?"
    assert options(topicsPattern=whole).topics_pattern == whole


def test_times_are_milliseconds_or_have_an_offset_from_utc() -> None:
    read = options(topic="t", startingTime="1500", endingTime="1970-01-01T01:00:02.5+01:00")
    assert (read.starting_ms, read.ending_ms) == (1500, 2500)
    assert options(topic="t", startingTime="1970-01-01T00:00:03Z").starting_ms == 3000
    later = options(topic="t", startingTime="2026-05-01T12:00:00.019Z")
    assert later.starting_ms == 1_777_636_800_019


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ("kafka.bootstrap.servers", "use 'zookeeper'"),
        ("subscribe", "use 'topic' or 'topics'"),
        ("subscribePattern", "use 'topicsPattern'"),
        ("startingOffsets", "use 'start'"),
        ("startingTimestamp", "use 'startingTime'"),
        ("maxOffsetsPerTrigger", "use 'maxRowsPerTrigger'"),
        ("service.url", "use 'zookeeper'"),
        ("pollTimeoutMs", "use 'retrySeconds'"),
        ("maxTriggerDelay", "every trigger reads what is new"),
        ("allowDifferentTopicSchemas", "use 'decodeValues'"),
        ("pulsar.reader.receiverQueueSize", "omit it: the source does not read from a broker"),
        ("kafka.group.id", "use 'predefinedSubscription'"),
        ("subscriptionPrefix", "use 'predefinedSubscription'"),
    ],
)
def test_an_option_of_another_connector_is_answered_with_labkits_name(
    given: str, advice: str
) -> None:
    with pytest.raises(
        OptionError, match=f"'{given.lower()}' belongs to another connector; .*{advice}"
    ):
        options(topic="t", **{given: "x"})


def test_an_option_that_is_not_given_has_its_default() -> None:
    read = options(topic="t")
    assert (read.start, read.end, read.split_bytes) == ("earliest", "latest", 32 * MIB)
    assert read.fail_on_data_loss
    assert read.retry_s == 120
    assert not read.closed_only


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"zookeeper": ""}, "option 'zookeeper' is missing"),
        ({"topic": "t", "topics": "a"}, "expected either option 'topic', 'topics'"),
        ({"topics": "t,a/b"}, "option 'topics': 'a/b' is not a topic name"),
        ({"topics": "t,"}, "option 'topics': '' is not a topic name"),
        ({"topicsPattern": "a/b"}, "option 'topicsPattern' is 'a/b'; expected a regular"),
        ({"topicsPattern": "a("}, "option 'topicsPattern': 'a(': missing ), unterminated"),
        (
            {"topics": "t,u", "start": "3:4:0:-1"},
            "option 'start': a MessageID does not say to which of several topics it belongs",
        ),
        ({"topicsPattern": "t", "end": "3:4:0:-1"}, "option 'end': a MessageID does not say"),
        (
            {"startingTime": "2026-05-01T12:00:00"},
            "option 'startingTime' is '2026-05-01T12:00:00'; expected milliseconds since 1970",
        ),
        ({"endingTime": "noon"}, "option 'endingTime' is 'noon'; expected"),
        ({"ledgers": "3", "startingTime": "5"}, "option 'startingTime' is only for topics"),
        (
            {"endingTime": "5", "end": "3:4:0:-1"},
            "give only one of the options 'end' and 'endingTime'",
        ),
        (
            {"startingTime": "5", "start": "latest"},
            "give only one of the options 'start' and 'startingTime'",
        ),
        ({"startingTime": "5", "endingTime": "4"}, "'startingTime' comes after"),
        ({"minPartitions": "0"}, "option 'minPartitions' must be a whole number"),
        ({"ledgers": "3", "decodeValues": "true"}, "option 'decodeValues' is only for topics"),
        ({"decodeValues": "1"}, "option 'decodeValues' must be 'true' or 'false'"),
        ({"storageColumns": ""}, "option 'storageColumns' must be 'true' or 'false'"),
        ({"failOnDataLoss": "no"}, "option 'failOnDataLoss' must be 'true' or"),
        ({"maxRowsPerTrigger": "1k"}, "option 'maxRowsPerTrigger' must be a whole"),
        ({"maxBytesPerTrigger": "0"}, "option 'maxBytesPerTrigger' must be a size"),
        (
            {"maxBytesPerTrigger": "1m", "maxRowsPerTrigger": "5"},
            "give only one of the options 'maxRowsPerTrigger' and 'maxBytesPerTrigger'",
        ),
        ({"admin.url": "http://h"}, "'admin.url' is only used with 'predefinedSub"),
        ({"token": "x"}, "option 'token' is only used with 'predefinedSubscription'"),
        (
            {"predefinedSubscription": "s"},
            "option 'admin.url' is ''; 'predefinedSubscription' needs the HTTP address of a broker",
        ),
        (
            {"predefinedSubscription": "s", "admin.url": "pulsar://h:6650"},
            "option 'admin.url' is 'pulsar://h:6650'",
        ),
        (
            {"predefinedSubscription": "..", "admin.url": "http://h"},
            "option 'predefinedSubscription': '..' is not a valid subscription name",
        ),
        (
            {"ledgers": "3", "predefinedSubscription": "s", "admin.url": "http://h"},
            "option 'predefinedSubscription' is only for topics",
        ),
        ({"topic": ""}, "expected either option 'topic', 'topics' or 'topicsPattern'"),
        (
            {"topic": "t", "ledgers": "3"},
            "expected either option 'topic', 'topics' or 'topicsPattern'",
        ),
        ({"partitions": "3"}, "unknown option 'partitions'; valid options: zookeeper"),
        ({"topic": "a/b"}, "option 'topic': 'a/b' is not a topic name"),
        ({"ledgers": "7,3-1"}, "option 'ledgers': range '3-1' ends before it starts"),
        (
            {"zookeeper": "etcd://h:1"},
            "option 'zookeeper': unsupported metadata store in 'etcd://h:1'",
        ),
        ({"ledgers": "all"}, "option 'ledgers' is 'all'; expected ids or ranges"),
        ({"start": "3:4"}, "option 'start': '3:4' is not a MessageID"),
        ({"end": "earliest"}, "option 'end' cannot be 'earliest'"),
        ({"start": "1:1:0:-1,2:2:0:-1"}, "option 'start' contains several ids"),
        ({"start": "9:1:0:-1", "end": "9:0:0:-1"}, "9:1:0:-1 comes after option 'end'"),
        ({"ledgers": "3", "start": "3:4:1:-1"}, "such as '3:4:-1:-1'"),
        ({"closedOnly": "yes"}, "option 'closedOnly' must be 'true' or 'false', got 'yes'"),
        (
            {"retrySeconds": "2m"},
            "option 'retrySeconds' must be a whole number of at least 1, got '2m'",
        ),
        (
            {"rowsPerBatch": "0"},
            "option 'rowsPerBatch' must be a whole number of at least 1, got '0'",
        ),
        (
            {"splitSize": "big"},
            "option 'splitSize' must be a size such as '32m' or '64k', got 'big'",
        ),
    ],
)
def test_a_refusal_names_the_option_and_what_to_write(given: dict[str, str], words: str) -> None:
    topic = {} if given.keys() & {"topic", "topics", "topicsPattern", "ledgers"} else {"topic": "t"}
    with pytest.raises(OptionError) as told:
        options(**topic, **given)
    assert words in str(told.value)
