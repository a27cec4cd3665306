"""The names that lessons use, and the module of each.

Each is imported on first use, because a lesson in a browser tab cannot import Spark or start
processes.
"""

from labkit.course.checking.check import check
from labkit.course.checking.hints_and_predictions import compare, hint, predict
from labkit.course.checking.parameters import parameters
from labkit.course.checking.record import record
from labkit.course.lessons.notebook_cluster import start
from labkit.course.runs.bookie_files import (
    add_in_groups,
    end_of_journal,
    journal_bytes,
    journal_fields,
    journal_files,
)
from labkit.course.runs.one_bookie import OneBookie
from labkit.system.model.errors import BKDigestMatchException
from labkit.system.storage.config import MIB
from labkit.system.storage.journal import padding
from labkit.views.widgets import CrashMapView, XRay
from labkit.worlds.sim.crash_map.crash_map import crash_map
from labkit.worlds.sim.machine.disk_operation import torn
from labkit.worlds.sim.settings.bookie_script import Add, Commit
from labkit.worlds.sim.variants.storage_variants import DEFECTS

__all__ = [
    "DEFECTS",
    "MIB",
    "Add",
    "BKDigestMatchException",
    "Commit",
    "CrashMapView",
    "OneBookie",
    "XRay",
    "add_in_groups",
    "check",
    "compare",
    "crash_map",
    "end_of_journal",
    "hint",
    "journal_bytes",
    "journal_fields",
    "journal_files",
    "padding",
    "parameters",
    "predict",
    "record",
    "start",
    "torn",
]
