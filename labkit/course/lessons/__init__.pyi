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
from labkit.course.runs.bookie_files import (
    add_in_groups,
    end_of_journal,
    entry_log_bytes,
    entry_log_order,
    entry_log_syncs,
    flush_two_ledgers,
    index_writes,
    journal_bytes,
    journal_fields,
    journal_files,
    journal_order,
    jumps,
    served_from,
)
from labkit.course.runs.broken_runs import sentences
from labkit.course.runs.cursor_cases import Ack, after
from labkit.course.runs.flush_runs import flushes
from labkit.course.runs.garbage_runs import (
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
from labkit.course.runs.one_bookie import OneBookie
from labkit.course.runs.one_broker import (
    OneBroker,
    cluster_with_broker,
    first_and_last,
    numbers,
    receive_all,
)
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
from labkit.course.runs.topic_world import (
    folders_of,
    ids_of_a_quiet_topic,
    in_a_cluster,
    lineage_of,
    lineage_of_order,
)
from labkit.course.runs.znodes import znodes_of
from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.bookie.garbage_collection import GarbageConfig
from labkit.system.check import broken, check_all
from labkit.system.client.striping import write_set
from labkit.system.model.byte_region import Piece
from labkit.system.model.errors import (
    BKDigestMatchException,
    NoEntryException,
    NoLedgerException,
    StorageDamagedException,
)
from labkit.system.model.message_id import MessageId
from labkit.system.storage.config import MIB
from labkit.system.storage.entry_log import log_ids, log_name
from labkit.system.storage.garbage import (
    EntryLogMetadata,
    deleted_ledgers,
    logs_to_compact,
    read_log_metadata,
)
from labkit.system.storage.index.ledger_index import index_path
from labkit.system.storage.journal import padding
from labkit.system.storage.xray import entry_log_spans
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.producing.producer import Batching
from labkit.system.topic.topic import Topic
from labkit.system.trace.sentence import describe
from labkit.views.shell.lineage import find_lineage
from labkit.views.widgets import (
    BookieInside,
    CrashMapView,
    EnsembleHistory,
    MessageIdLineage,
    RecoveryProgress,
    XRay,
)
from labkit.views.widgets.log_usage import LogBar, LogUsage
from labkit.views.widgets.step_list import Step, Steps
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.sim.crash_map.crash_map import crash_map
from labkit.worlds.sim.machine.disk_operation import torn
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash, Delay, Partition
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.bookie_script import CONFIG, Add, Commit
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.variants.storage_variants import DEFECTS
from labkit.worlds.sim.workload.steps import Read, Write

__all__ = [
    "CONFIG",
    "DEFECTS",
    "MIB",
    "TWO_LOGS",
    "Ack",
    "Add",
    "At",
    "AutoRecoveryConfig",
    "BKDigestMatchException",
    "Batching",
    "BookieInside",
    "Cluster",
    "Commit",
    "Crash",
    "CrashMapView",
    "Delay",
    "EnsembleHistory",
    "EntryLogMetadata",
    "GarbageConfig",
    "LocalCluster",
    "LogBar",
    "LogUsage",
    "ManagedLedgerConfig",
    "MessageId",
    "MessageIdLineage",
    "NoEntryException",
    "NoLedgerException",
    "On",
    "OneBookie",
    "OneBroker",
    "Partition",
    "Piece",
    "Read",
    "RecoveryProgress",
    "Scenario",
    "Step",
    "Steps",
    "StorageDamagedException",
    "Topic",
    "Write",
    "XRay",
    "add_in_groups",
    "add_missed",
    "after",
    "auditor_cut_off",
    "bookie_lost",
    "bookie_with_logs",
    "broken",
    "bytes_on_disk",
    "check",
    "check_all",
    "cluster_with_broker",
    "collect_garbage",
    "compact_logs",
    "compare",
    "copied_entries",
    "cost_of_compaction",
    "crash_map",
    "deleted_ledgers",
    "describe",
    "end_of_journal",
    "entries_with_one_copy",
    "entry_log_bytes",
    "entry_log_order",
    "entry_log_spans",
    "entry_log_syncs",
    "find_lineage",
    "first_and_last",
    "flush_two_ledgers",
    "flushes",
    "folders_of",
    "garbage_bytes",
    "hint",
    "hours_until_freed",
    "ids_of_a_quiet_topic",
    "in_a_cluster",
    "index_path",
    "index_writes",
    "journal_bytes",
    "journal_fields",
    "journal_files",
    "journal_order",
    "jumps",
    "lineage_of",
    "lineage_of_order",
    "log_ids",
    "log_name",
    "log_usage",
    "logs_to_compact",
    "marked_ledgers",
    "numbers",
    "outcome_of",
    "padding",
    "parameters",
    "predict",
    "read_count",
    "read_log_metadata",
    "reads_before_first_copy",
    "receive_all",
    "record",
    "repair_of",
    "run",
    "second_of_mark",
    "sentences",
    "served_from",
    "start",
    "steps_that_free_space",
    "torn",
    "two_bookies_lost",
    "worker_dies",
    "write_set",
    "znodes_of",
]
