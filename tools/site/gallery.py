"""Generates the page with all views, each showing a moment that illustrates its purpose."""

import asyncio
from collections.abc import Iterator

from labkit import (
    At,
    BookieInside,
    Cluster,
    ClusterView,
    Crash,
    CrashMapView,
    EnsembleHistory,
    MessageIdLineage,
    On,
    Read,
    RecoveryProgress,
    Scenario,
    SpaceTime,
    Stripes,
    Write,
    XRay,
    run,
    timeline,
)
from labkit.course.runs.bookie.one_bookie import OneBookie
from labkit.course.runs.open_run import FixedRun
from labkit.course.runs.topics.topic_world import in_a_cluster, lineage_of
from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.producing.producer import Batching
from labkit.system.topic.topic import Topic
from labkit.views.widgets.scene_view import SceneView
from labkit.views.xray.byte_region import Piece
from labkit.views.xray.message_location import Lineage
from labkit.worlds.sim.crash_map.crash_map import crash_map
from labkit.worlds.sim.explore.counterexamples import counterexample
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.settings.bookie_script import Add, Commit, ScriptStep
from labkit.worlds.sim.variants.storage_variants import DEFECTS
from tools.site.lessons import Lesson
from tools.site.views import Views

_HEAD = """\
# The views

Each view answers one question about a run or about the bytes on a disk. Press play, drag the
slider, or point at anything to read what it is. The first four views show the same run, in which a
bookie is killed, and share one clock: if you move one, the others follow. The view in which you are
the network has [a page of its own](play.md).
"""


def gallery(lessons: list[Lesson], views: Views) -> str:
    """Return the page as Markdown. The page works without Python."""
    titles = {lesson.number: lesson for lesson in lessons}
    parts = [_HEAD]
    for view, number in _views():
        lesson = titles[number]
        parts.append(f"## {type(view).__name__}\n\n{views.show(view)}\n")
        parts.append(f"Used in [{lesson.title}](course/{lesson.path.name}).\n")
    return "\n".join(parts)


def _views() -> Iterator[tuple[SceneView, str]]:
    """Yield one view of each kind, with the number of a lesson that uses it."""
    write = Write(entries=8, ensemble=4, write_quorum=3, ack_quorum=2, every_ms=20)
    kill = Crash("b1", when=On("lac.advanced", nth=4))
    killed = FixedRun(
        run(Scenario(Cluster(bookies=5, flush_interval_ms=70), (write,), (kill,), seed=1))
    )
    yield ClusterView(killed), "00"
    yield SpaceTime(killed), "06"
    yield BookieInside(killed, "b0"), "03"
    yield EnsembleHistory(killed), "05"
    yield Stripes(5, 3, 2, failed=(1,)), "05"
    yield XRay(_moments_of_an_entry()), "01"
    script: list[ScriptStep] = [Add(5, 0), Add(5, 1), Commit(), Add(5, 2), Add(5, 3), Commit()]
    hasty = DEFECTS["ack before sync"].store_factory
    yield CrashMapView(crash_map(script, store_factory=hasty)), "02"
    lost = Scenario(
        Cluster(5, autorecovery=AutoRecoveryConfig(lost_bookie_recovery_delay_s=10)),
        (write, Read(0, polls=75, poll_ms=1000, when=At(100))),
        (Crash("b1", when=At(1000)),),
        limit_s=90,
    )
    yield RecoveryProgress(FixedRun(run(lost))), "09"
    yield MessageIdLineage(in_a_cluster(_publish, bookies=5)), "11"
    yield timeline(run(counterexample("no fencing on recovery reads")), again=None), "14"


def _moments_of_an_entry() -> dict[str, tuple[Piece, ...]]:
    bookie = OneBookie()
    bookie.add((7, 0))
    moments = {"after the add": bookie.places(7, 0)}
    bookie.commit()
    moments["after the journal's sync"] = bookie.places(7, 0)
    bookie.flush()
    moments["after the flush"] = bookie.places(7, 0)
    return moments


async def _publish(node: ClientNode) -> Lineage:
    config = ManagedLedgerConfig(ensemble_size=5, write_quorum=3, ack_quorum=2)
    topic = await Topic.create(node.client, "orders", partitions=2, config=config)
    producer = topic.producer("shop", batching=Batching(max_messages=4))
    ids = await asyncio.gather(*(producer.send(b"order %d" % number) for number in range(16)))
    await asyncio.sleep(1)  # until the bookies have flushed
    return await lineage_of(node, ids[5])
