"""The names that lessons use, and the module of each.

Each is imported on first use, because a lesson in a browser tab cannot import Spark or start
processes.
"""

from labkit.course.checking.check import check
from labkit.course.checking.hints_and_predictions import compare, hint, predict
from labkit.course.checking.parameters import parameters
from labkit.course.checking.record import record
from labkit.course.exercises.garbage import TWO_LOGS
from labkit.course.lessons.notebook_cluster import start
from labkit.course.runs.bookie.bookie_files import (
    add_and_flush,
    add_in_groups,
    end_of_journal,
    entry_log_bytes,
    entry_log_order,
    entry_log_syncs,
    flush_two_ledgers,
    index_bytes,
    index_writes,
    journal_bytes,
    journal_fields,
    journal_files,
    journal_order,
    jumps,
    packed_bytes,
    read_with_changed_byte,
    records_replayed,
    served_from,
)
from labkit.course.runs.bookie.flush_runs import (
    entries_lost_first,
    flushes,
    replay_after_cut,
    replayed_at_end,
    where_replay_gets_shorter,
)
from labkit.course.runs.bookie.garbage_runs import (
    bookie_with_logs,
    bytes_on_disk,
    collect_garbage,
    compact_logs,
    cost_of_compaction,
    garbage_bytes,
    hours_until_freed,
    log_usage,
    steps_that_free_space,
)
from labkit.course.runs.bookie.one_bookie import OneBookie
from labkit.course.runs.broken_runs import first_loss, lost_entries, range_of_seed, sentences
from labkit.course.runs.cluster_trial import failures
from labkit.course.runs.game.game import Game
from labkit.course.runs.quorum_runs import (
    ensemble_of,
    failures_survived,
    ledgers_created,
    result_of_failures,
    sent_to,
)
from labkit.course.runs.recovery_runs import damaged_copy, rejected_adds
from labkit.course.runs.repair_runs import (
    add_missed,
    auditor_cut_off,
    bookie_lost,
    copied_entries,
    entries_with_one_copy,
    marked_ledgers,
    outcome_of,
    read_count,
    reads_before_first_copy,
    repair_of,
    second_of_mark,
    two_bookies_lost,
    worker_dies,
)
from labkit.course.runs.tailing import tailing_delays
from labkit.course.runs.timeline import timeline
from labkit.course.runs.topics.cursor_cases import Ack, after
from labkit.course.runs.topics.live_flights import (
    LiveFlights,
    NotedQuery,
    committed,
    ensembles_in,
    error_of,
    finished,
    in_thread,
    offset_table,
    picture_of_middle,
    planned,
    row_count,
    steps_of_a_micro_batch,
)
from labkit.course.runs.topics.one_broker import (
    OneBroker,
    cluster_with_broker,
    first_and_last,
    numbers,
    receive_all,
)
from labkit.course.runs.topics.recorded_stream import (
    causes_of_rollovers,
    entries_of_both_kinds,
    entries_of_one_message,
    faults_in,
    full_batches,
    ids_parsed_wrong,
    incomplete_batches,
    keys_in_two_partitions,
    load_run,
    newest_and_a_thousand_back,
    recorded_trace,
    repair_chart,
    repairs_since_kill,
    rollovers_by_reason,
    smallest_batch_indexes,
    timed,
    topics_in,
    topics_with_varying_ledgers,
    violations_in_pandas,
    with_faults,
    without_a_last_entry,
    without_exception,
)
from labkit.course.runs.topics.topic_world import ids_of_a_quiet_topic, lineage_of_order
from labkit.course.runs.uses import stories
from labkit.course.runs.uses.edit_log import TAKE_OVER
from labkit.course.runs.uses.offset_store import newest
from labkit.course.runs.written_entries import (
    closed_at,
    end_of_ledger,
    lac_read,
    last_confirmed,
    ledger_of_new_owner,
    segment_starts,
    written_entries,
)
from labkit.course.runs.znodes import ledger_paths, znodes_of
from labkit.course.workshop.bookie.common_trials import ONE_ADD
from labkit.course.workshop.client import runs
from labkit.course.workshop.tracks import track
from labkit.system.check import broken, check_all
from labkit.system.client.striping import write_set
from labkit.system.metadata.ledger_layout import LAYOUTS
from labkit.system.metadata.location import DEFAULT_LEDGERS_ROOT
from labkit.system.model.entry import DigestType, Entry, decode_entry, encode_entry, make_digest
from labkit.system.model.errors import (
    BKDigestMatchException,
    NoEntryException,
    NoLedgerException,
    StorageDamagedException,
)
from labkit.system.storage.config import MIB
from labkit.system.storage.index.ledger_index import index_path
from labkit.system.storage.journal import padding
from labkit.views.spark import charts, flights, ledgers, publishing, streams, trace_charts, traces
from labkit.views.spark.gaps import GAPS, STATE_STORE, GapDetector
from labkit.views.spark.picture import message_id_picture
from labkit.views.spark.session import spark_session
from labkit.views.widgets import (
    BookieInside,
    CrashMapView,
    EnsembleHistory,
    MessageIdLineage,
    RecoveryProgress,
    SpaceTime,
    Stripes,
    XRay,
)
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.sim.crash_map.crash_map import crash_map
from labkit.worlds.sim.explore.counterexamples import counterexample
from labkit.worlds.sim.explore.orders.every_order import every_order
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.explore.shrink import shrink
from labkit.worlds.sim.machine.disk_operation import torn
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash, Delay, Partition, Pause, SlowDisk
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.bookie_script import DIGEST, Add, Checkpoint, Commit, Fence, Restart
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.variants.storage_variants import DEFECTS
from labkit.worlds.sim.variants.variants import VARIANTS
from labkit.worlds.sim.workload.publish import Publish
from labkit.worlds.sim.workload.steps import Read, Recover, Write

__all__ = [
    "DEFAULT_LEDGERS_ROOT",
    "DEFECTS",
    "DIGEST",
    "GAPS",
    "LAYOUTS",
    "MIB",
    "ONE_ADD",
    "STATE_STORE",
    "TAKE_OVER",
    "TWO_LOGS",
    "VARIANTS",
    "Ack",
    "Add",
    "At",
    "BKDigestMatchException",
    "BookieInside",
    "Checkpoint",
    "Cluster",
    "Commit",
    "Crash",
    "CrashMapView",
    "Delay",
    "DigestType",
    "EnsembleHistory",
    "Entry",
    "Fence",
    "Game",
    "GapDetector",
    "LiveFlights",
    "LocalCluster",
    "MessageIdLineage",
    "NoEntryException",
    "NoLedgerException",
    "NotedQuery",
    "On",
    "OneBookie",
    "OneBroker",
    "Partition",
    "Pause",
    "Publish",
    "Read",
    "Recover",
    "RecoveryProgress",
    "Restart",
    "Scenario",
    "SlowDisk",
    "SpaceTime",
    "StorageDamagedException",
    "Stripes",
    "Write",
    "XRay",
    "add_and_flush",
    "add_in_groups",
    "add_missed",
    "after",
    "auditor_cut_off",
    "bookie_lost",
    "bookie_with_logs",
    "broken",
    "bytes_on_disk",
    "causes_of_rollovers",
    "charts",
    "check",
    "check_all",
    "closed_at",
    "cluster_with_broker",
    "collect_garbage",
    "committed",
    "compact_logs",
    "compare",
    "copied_entries",
    "cost_of_compaction",
    "counterexample",
    "crash_map",
    "damaged_copy",
    "decode_entry",
    "encode_entry",
    "end_of_journal",
    "end_of_ledger",
    "ensemble_of",
    "ensembles_in",
    "entries_lost_first",
    "entries_of_both_kinds",
    "entries_of_one_message",
    "entries_with_one_copy",
    "entry_log_bytes",
    "entry_log_order",
    "entry_log_syncs",
    "error_of",
    "every_order",
    "failures",
    "failures_survived",
    "faults_in",
    "finished",
    "first_and_last",
    "first_loss",
    "flights",
    "flush_two_ledgers",
    "flushes",
    "full_batches",
    "garbage_bytes",
    "hint",
    "hours_until_freed",
    "ids_of_a_quiet_topic",
    "ids_parsed_wrong",
    "in_thread",
    "incomplete_batches",
    "index_bytes",
    "index_path",
    "index_writes",
    "journal_bytes",
    "journal_fields",
    "journal_files",
    "journal_order",
    "jumps",
    "keys_in_two_partitions",
    "lac_read",
    "last_confirmed",
    "ledger_of_new_owner",
    "ledger_paths",
    "ledgers",
    "ledgers_created",
    "lineage_of_order",
    "load_run",
    "log_usage",
    "lost_entries",
    "make_digest",
    "marked_ledgers",
    "message_id_picture",
    "newest",
    "newest_and_a_thousand_back",
    "numbers",
    "offset_table",
    "outcome_of",
    "packed_bytes",
    "padding",
    "parameters",
    "picture_of_middle",
    "planned",
    "predict",
    "publishing",
    "range_of_seed",
    "read_count",
    "read_with_changed_byte",
    "reads_before_first_copy",
    "receive_all",
    "record",
    "recorded_trace",
    "records_replayed",
    "rejected_adds",
    "repair_chart",
    "repair_of",
    "repairs_since_kill",
    "replay_after_cut",
    "replayed_at_end",
    "result_of_failures",
    "rollovers_by_reason",
    "row_count",
    "run",
    "runs",
    "second_of_mark",
    "segment_starts",
    "sent_to",
    "sentences",
    "served_from",
    "shrink",
    "smallest_batch_indexes",
    "spark_session",
    "start",
    "steps_of_a_micro_batch",
    "steps_that_free_space",
    "stories",
    "storm",
    "streams",
    "tailing_delays",
    "timed",
    "timeline",
    "topics_in",
    "topics_with_varying_ledgers",
    "torn",
    "trace_charts",
    "traces",
    "track",
    "two_bookies_lost",
    "violations_in_pandas",
    "where_replay_gets_shorter",
    "with_faults",
    "without_a_last_entry",
    "without_exception",
    "worker_dies",
    "write_set",
    "written_entries",
    "znodes_of",
]
