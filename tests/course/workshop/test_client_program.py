"""Tests step 7 of the client: the learner's program in the simulated world, and as processes in a
live cluster from which other clients read.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from labkit.cli.main import main
from labkit.course.checking.refused import Refused
from labkit.course.runs.timeline import LiveRunCounterexample
from labkit.course.workshop.client.live_trial import serves_a_cluster
from labkit.course.workshop.client.process import InputError, lines_of_input
from labkit.course.workshop.client.running import start_program
from labkit.course.workshop.files import load
from labkit.course.workshop.tracks import track
from labkit.views.widgets.timeline import TimelineView
from tests.course.workshop.wrong import with_changes

STEP = track("client").step(7)
SOLUTION = track("client").solution


def test_the_solution_passes_what_runs_without_processes() -> None:
    learner = load(SOLUTION, seeds=1)
    STEP.first_test.run(learner)
    for trial in STEP.quick_trials:
        trial(learner)


@pytest.mark.parametrize("name", ["bookie", "client"])
def test_where_no_process_can_start_the_step_says_what_it_needs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser tab has no `labkit.worlds.live`."""
    monkeypatch.setitem(sys.modules, "labkit.worlds.live", None)
    for module in [each for each in sys.modules if each.startswith("labkit.worlds.live.")]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"labkit.course.workshop.{name}.live_trial", raising=False)
    last = track(name).steps[-1]
    with pytest.raises(Refused, match=rf"a terminal: labkit workshop {name} {last.number}"):
        last.slow_trials[0](load(track(name).solution, seeds=1))


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.long
def test_what_the_solutions_program_confirmed_is_there_after_sigkill_and_a_take_over() -> None:
    result = serves_a_cluster(load(SOLUTION, seeds=0))
    assert "took over 30 entries from a stopped writer, which then ended with" in result.report
    assert result.your_ms > 0 < result.our_ms
    assert "the ledger is fenced: another client is recovering it" in result.report


LIVE: dict[str, tuple[tuple[tuple[str, str], ...], str]] = {
    "does not fence": (
        (
            ("fence=True)\n    lac = max", "fence=False)\n    lac = max"),
            (
                "cluster.read_entry(bookie, entry_id, fence=True)",
                "cluster.read_entry(bookie, entry_id)",
            ),
        ),
        "entries 30 to 59: they are lost",
    ),
    "closes at the LastAddConfirmed that it learnt": (
        (
            (
                "    while (entry := await find(cluster, metadata, last + 1)) is not None:",
                "    while (entry := None) is not None:",
            ),
        ),
        "the second one found",
    ),
    "does not store the ensemble": (
        (
            (
                "self.version = await self.cluster.write_metadata(changed, self.version)",
                "pass",
            ),
        ),
        "was killed in mid-write; all 60 entries are confirmed",
    ),
    "starts each write set at the first bookie": (
        (("(entry_id + i) % ensemble_size for i", "i for i"),),
        "cannot read the ledger",
    ),
}


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", LIVE)
def test_a_wrong_client_is_refused_in_a_live_cluster_with_what_happened(
    name: str, tmp_path: Path
) -> None:
    changes, reason = LIVE[name]
    learner = load(with_changes(tmp_path, "client", *changes), seeds=0)
    with pytest.raises(Refused, match=reason) as refused:
        serves_a_cluster(learner)
    found = refused.value.counterexample
    assert isinstance(found, LiveRunCounterexample)
    assert "ledger.created" in {event.kind for event in found.verdict.lineage}
    assert isinstance(found.view(), TimelineView)


def test_a_program_that_lacks_a_part_ends_with_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "myclient.py"
    mine.write_text("class Writer\n")
    options = ["client", "--file", str(mine), "--zookeeper", "127.0.0.1:1"]
    assert main([*options, "take", "1"]) == 1
    assert "myclient.py, line 1: expected ':'" in capsys.readouterr().err
    assert main([*options, "write", "--sizes", "3,2"]) == 1
    assert "three numbers E,Qw,Qa" in capsys.readouterr().err
    assert main([*options, "write", "--window", "0"]) == 1
    assert "must be at least 1" in capsys.readouterr().err


def test_a_programs_process_imports_neither_the_views_nor_the_checks() -> None:
    code = "import sys, labkit.course.workshop.client.process as _; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    slow = ("IPython", "ipywidgets", "labkit.views", "labkit.course.workshop.step_check")
    assert [name for name in slow if name in run.stdout.split()] == []


def test_a_program_whose_task_ends_python_has_not_succeeded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run_it(*_: object) -> None:
        asyncio.get_running_loop().call_soon(sys.exit, 0)
        await asyncio.sleep(60)

    monkeypatch.setattr("labkit.course.workshop.client.process.run_command", run_it)
    assert main(["client", "--zookeeper", "127.0.0.1:1", "take", "1"]) == 1
    assert "a task in myclient.py called `sys.exit`" in capsys.readouterr().err


@pytest.mark.slow
async def test_a_program_that_prints_while_it_is_imported_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "myclient.py"
    file.write_text("print('hello', flush=True)\n")
    with pytest.raises(Refused, match=r"prints b'hello\\n' while it is imported"):
        await start_program(file, "w1", tmp_path, "127.0.0.1:1", ("write",), lambda _: None)


def test_a_program_whose_input_is_closed_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    options = ["client", "--file", str(SOLUTION), "--zookeeper", "127.0.0.1:1"]
    assert main([*options, "write"]) == 1
    assert capsys.readouterr().err == (
        "labkit: client: standard input is closed: pass the lines to write\n"
    )


@pytest.mark.timeout(30)
def test_an_input_that_cannot_be_read_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lines() -> list[bytes]:
        return [line async for line in lines_of_input()]

    error = IsADirectoryError(21, "Is a directory")
    monkeypatch.setattr(os, "read", Mock(side_effect=[b"one\n", error]))
    with pytest.raises(InputError, match=r"cannot be read: .*Is a directory"):
        asyncio.run(lines())
