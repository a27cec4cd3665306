"""Tests that views never write `1 acks`, and describe quorums in words."""

import json
import re
from collections.abc import Callable

import pytest

from labkit.views.widgets import ClusterView, EnsembleHistory, MessageIdLineage
from labkit.views.widgets.drawing.plurals import counted, quorum_words
from labkit.views.widgets.scene_view import SceneView
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.workload.steps import Write
from tests.views.widgets.films import crashed, marks_of
from tests.views.widgets.histories import repaired
from tests.views.widgets.lineages import in_a_batch


def test_one_of_a_kind_is_singular() -> None:
    assert [counted(count, "copy", "copies") for count in (0, 1, 2)] == [
        *("0 copies", "1 copy", "2 copies")
    ]
    assert counted(1, "ack") == "1 ack"
    assert counted(3, "ack") == "3 acks"


def test_an_unknown_quorum_is_a_question_mark() -> None:
    assert str(quorum_words(4, 3, -1)) == "4 bookies · 3 copies · ? acks"


@pytest.mark.parametrize(
    "view",
    [
        lambda: ClusterView(crashed()),
        lambda: EnsembleHistory(repaired()),
        lambda: MessageIdLineage(in_a_batch()),
    ],
)
def test_a_view_describes_quorums_in_words(view: Callable[[], SceneView]) -> None:
    film = json.dumps(view().film, ensure_ascii=False)
    assert re.search(r"\d bookies\b.*\d copies\b.*\d acks\b", film)
    assert "Qw=" not in film


def test_a_ledger_on_one_bookie_has_one_copy_and_one_ack() -> None:
    write = Write(entries=1, ensemble=1, write_quorum=1, ack_quorum=1)
    scene = ClusterView(run(Scenario(Cluster(1), (write,)))).scene()
    words = [mark.text for mark in marks_of(scene)]
    assert {"on 1 bookie", "1 copy", "1 ack"} <= set(words)
    assert not [each for each in words if re.search(r"\b1 (bookies|copies|acks)\b", each)]
