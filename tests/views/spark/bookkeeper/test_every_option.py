"""Tests that every option has a test for its effect, for an error, and for a query that is
restarted from its checkpoint.
"""

import inspect
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest

from labkit.views.spark.bookkeeper import options
from labkit.views.spark.bookkeeper.writing import write_options
from tests.views.spark.bookkeeper import (
    test_columns,
    test_official_client,
    test_options,
    test_outages,
    test_source,
    test_stream,
    test_subscription,
)
from tests.views.spark.bookkeeper.writing import test_sending, test_write_options, test_writers

Function = Callable[..., Any]


REFUSED = test_options.test_a_refusal_names_the_option_and_what_to_write
WRONG = test_source.test_a_wrong_option_is_named
NOT_FOR_STREAMS = test_stream.test_a_wrong_option_is_named
CHANGED = test_stream.test_a_query_restarted_with_another_option_repeats_its_batch_and_loses_no_row
ENDS = test_source.test_start_and_end_are_both_included
BY_NAME = test_source.test_several_topics_are_read_by_name_or_by_pattern
BETWEEN_TIMES = test_source.test_a_batch_query_reads_what_was_published_between_two_times
LIMITED_BYTES = test_stream.test_a_batch_has_about_the_bytes_of_the_limit_also_after_a_restart
ANY_BROKER = (
    test_subscription.test_any_broker_can_be_asked_about_every_partition_also_after_a_restart
)
TOKEN = test_subscription.test_a_broker_that_asks_for_a_token_gets_the_one_of_a_restarted_query
SUBSCRIBED = test_subscription.test_a_restarted_stream_moves_its_subscription_to_its_own_position


class Evidence(NamedTuple):
    effect: Function
    error: Function = REFUSED
    restart: Function = CHANGED


OF_READERS = {
    "zookeeper": Evidence(
        test_options.test_a_cluster_below_another_path_is_named_by_its_uri, WRONG
    ),
    "topic": Evidence(
        test_source.test_a_topic_has_a_row_for_each_message_with_its_id,
        WRONG,
        test_stream.test_a_restarted_query_gives_exactly_what_is_new,
    ),
    "topics": Evidence(
        BY_NAME,
        WRONG,
        test_stream.test_several_topics_are_followed_and_more_can_be_added_at_a_restart,
    ),
    "topicsPattern": Evidence(
        BY_NAME, WRONG, test_stream.test_a_stream_of_a_pattern_notices_new_topics
    ),
    "ledgers": Evidence(
        test_source.test_ledgers_have_a_row_for_each_entry,
        restart=test_stream.test_ledgers_are_followed_entry_by_entry,
    ),
    "start": Evidence(ENDS, WRONG),
    "end": Evidence(
        ENDS, test_source.test_an_end_that_is_not_confirmed_yet_is_refused, NOT_FOR_STREAMS
    ),
    "startingTime": Evidence(
        BETWEEN_TIMES,
        restart=test_stream.test_a_query_that_starts_at_a_time_does_not_apply_it_again_at_a_restart,
    ),
    "endingTime": Evidence(BETWEEN_TIMES, restart=NOT_FOR_STREAMS),
    "closedOnly": Evidence(test_source.test_closed_only_leaves_open_ledgers_out),
    "rowsPerBatch": Evidence(test_source.test_batches_of_rows_have_the_size_asked_for),
    "splitSize": Evidence(test_source.test_large_ledgers_are_read_by_several_tasks),
    "minPartitions": Evidence(test_source.test_a_query_has_the_number_of_tasks_that_was_asked_for),
    "password": Evidence(
        test_source.test_a_ledger_with_a_password_is_read_with_it,
        WRONG,
        test_stream.test_ledgers_are_followed_with_their_password_and_only_with_it,
    ),
    "retrySeconds": Evidence(
        test_outages.test_a_stream_ends_with_one_sentence_when_zookeeper_stays_away_and_can_be_restarted
    ),
    "decodeValues": Evidence(
        test_official_client.test_json_records_are_decoded_and_messages_without_a_schema_are_not
    ),
    "storageColumns": Evidence(
        test_columns.test_the_columns_about_storage_and_chunks_can_be_left_out
    ),
    "maxRowsPerTrigger": Evidence(
        test_stream.test_a_batch_has_no_more_rows_than_the_limit_and_all_come_in_order
    ),
    "maxBytesPerTrigger": Evidence(LIMITED_BYTES, restart=LIMITED_BYTES),
    "failOnDataLoss": Evidence(
        test_source.test_a_query_that_names_a_trimmed_ledger_fails_unless_data_loss_is_allowed,
        restart=test_stream.test_ledgers_that_went_unread_are_reported_and_can_be_borne,
    ),
    "predefinedSubscription": Evidence(
        test_subscription.test_retention_keeps_the_ledgers_that_a_restarted_stream_needs,
        restart=SUBSCRIBED,
    ),
    "admin.url": Evidence(
        ANY_BROKER,
        test_subscription.test_a_stream_fails_if_no_broker_moves_its_subscription,
        ANY_BROKER,
    ),
    "token": Evidence(TOKEN, TOKEN, TOKEN),
}

written = partial(
    Evidence,
    error=test_write_options.test_a_wrong_option_is_an_error_that_says_what_to_do,
    restart=test_writers.test_a_stream_restarted_with_another_option_loses_no_row,
)
TLS = test_sending.test_a_broker_that_asks_for_a_token_gets_the_one_of_a_repeated_task_over_tls

OF_WRITERS = {
    "service.url": written(
        test_writers.test_the_official_client_and_the_source_read_what_a_query_has_written
    ),
    "topic": written(test_writers.test_a_column_names_the_topic_of_each_row_unless_the_option_does),
    "token": Evidence(TLS, TLS, TLS),
    "tlsTrustCertsFilePath": Evidence(TLS, TLS, TLS),
    "exactlyOnce": written(
        test_writers.test_a_stream_fails_without_deduplication_and_can_write_at_least_once
    ),
    "retrySeconds": written(test_sending.test_a_task_fails_if_its_rows_are_not_stored_in_time),
}


@pytest.mark.parametrize(
    ("names", "tested"),
    [(options.NAMES, OF_READERS), (write_options.NAMES, OF_WRITERS)],
    ids=["reading", "writing"],
)
def test_every_option_has_tests(names: tuple[str, ...], tested: dict[str, Evidence]) -> None:
    assert set(tested) == set(names)
    for name, tests in tested.items():
        for test in tests:
            assert name in inspect.getsource(sys.modules[test.__module__])
