"""Tests the track "build a client": the solution passes each step, and plausible wrong clients are
refused with a counterexample.
"""

import importlib
from pathlib import Path

import pytest

from labkit.course.checking.exercise import Refused
from labkit.course.runs.timeline import RunCounterexample
from labkit.course.workshop import check
from labkit.course.workshop.client import api
from labkit.course.workshop.client.reading import responses_determine_the_result
from labkit.course.workshop.files import load
from labkit.course.workshop.step import Step, track
from labkit.worlds.sim.scenario.rerun_with_fault import CannotForkError
from tests.course.workshop.wrong import refused, with_changes
from tests.repeat import repeated

SIMULATED = [step for step in track("client").steps if not step.is_live]
_SEND = """        except BKLedgerFencedException as error:
            self.end(error)
        except BKException:
            pending.failed.append(place)
            self.bookie_failed(bookie)
"""
_LAC = "            self.last_add_confirmed,\n            self.length,\n"
_CONFIRM = """        while self.pending and len(self.pending[0].acked) >= self.metadata.ack_quorum:
            pending = self.pending.popleft()
"""
_OUT_OF_ORDER = """        quorum = self.metadata.ack_quorum
        for pending in [each for each in self.pending if len(each.acked) >= quorum]:
            self.pending.remove(pending)
"""
_REREAD = """        except BKMetadataVersionException:
            metadata, version = await cluster.read_metadata()
    return metadata
"""
WRONG: dict[str, tuple[int, str, str, str]] = {
    "confirms at the first acknowledgement": (
        1,
        ">= self.metadata.ack_quorum:",
        ">= 1:",
        "AckQuorumIsReached",
    ),
    "waits for all bookies": (
        1,
        ">= self.metadata.ack_quorum:",
        ">= self.metadata.write_quorum:",
        "w waits for ever",
    ),
    "confirms out of order": (1, _CONFIRM, _OUT_OF_ORDER, "LacAdvancesInOrder"),
    "starts each write set at the first bookie": (
        1,
        "(entry_id + i) % ensemble_size for i",
        "i for i",
        "WriteSetIsRight",
    ),
    "sends to Qa bookies only": (
        1,
        "for i in range(write_quorum)]",
        "for i in range(write_quorum - 1)]",
        "WriteSetIsRight",
    ),
    "ends with the first failed add": (
        1,
        _SEND,
        "        except BKException as error:\n            self.end(error)\n",
        "w: write 6 entries",
    ),
    "announces what is only pushed": (
        2,
        _LAC,
        _LAC.replace("confirmed", "pushed"),
        "carries the LastAddConfirmed of the moment",
    ),
    "takes the first bookie's word": (
        2,
        "        if is_covered(known, metadata):",
        "        if known:",
        "ReadersLearnWhatIsConfirmed",
    ),
    "takes a majority for enough": (
        2,
        "        if is_covered(known, metadata):",
        "        if len(known) * 2 > len(ensemble):",
        "ReadersLearnWhatIsConfirmed",
    ),
    "takes the last entry for the last confirmed one": (
        2,
        "lac = entry.last_add_confirmed",
        "lac = entry.entry_id",
        "NoDirtyReads",
    ),
    "counts an error as an answer": (
        2,
        "        except BKException:\n            pass\n        answers",
        "        except BKException:\n            lac = NO_ENTRY_ID\n        answers",
        "the reader raises `BKReadException`",
    ),
    "counts absence as no answer": (
        2,
        "        except PROVES_ABSENCE:\n            lac = NO_ENTRY_ID\n        except",
        "        except",
        "q: read ledger 0: BKReadException",
    ),
    "looks in the newest segment only": (
        3,
        "ensemble = self.metadata.ensemble_at(entry_id)\n        errors",
        "ensemble = self.metadata.segments[-1].ensemble\n        errors",
        "Entry 3",
    ),
    "begins the segment at the next add": (
        4,
        "        first = self.last_add_confirmed + 1\n        earlier",
        "        first = self.last_add_pushed + 1\n        earlier",
        "A new segment starts at LastAddConfirmed + 1",
    ),
    "does not store the ensemble": (
        4,
        "            self.version = await self.cluster.write_metadata(changed, self.version)\n",
        "            pass\n",
        "AcknowledgedIsDurable",
    ),
    "goes on confirming while it closes": (
        5,
        '        self.end(BKLedgerClosedException("this writer has closed the ledger"))\n',
        "",
        "ends at the writer's LastAddConfirmed",
    ),
    "closes over another client's end": (
        5,
        _REREAD,
        _REREAD.replace("metadata, version", "_, version"),
        "that another client has closed stays as it is",
    ),
    "changes the ensemble of a ledger in recovery": (
        5,
        "            raise BKLedgerFencedException("
        '"another client recovers this ledger") from None\n',
        "            self.metadata, self.version = await self.cluster.read_metadata()\n"
        "            self.failed += failed\n"
        "            return\n",
        "AcknowledgedIsDurable",
    ),
    "takes silence for a denial": (
        6,
        "        denied += isinstance(answer, PROVES_ABSENCE)",
        "        denied += 1",
        "may have been confirmed is found",
    ),
    "closes at the LastAddConfirmed that it learnt": (
        6,
        "    while (entry := await find(cluster, metadata, last + 1)) is not None:",
        "    while (entry := None) is not None:",
        "may have been confirmed is found",
    ),
    "writes back without the recovery flag": (
        6,
        "await cluster.add_entry(bookie, entry, recovery=True)",
        "await cluster.add_entry(bookie, entry)",
        "is written back, with the recovery flag",
    ),
    "does not write back": (
        6,
        "        await write_back(cluster, metadata, replace(entry, last_add_confirmed=lac))\n",
        "",
        "AllCommittedEntriesReachAckQuorum",
    ),
    "chooses a bookie that is a member": (
        4,
        "unwanted = (*self.ensemble, *self.given_up)",
        "unwanted = (*failed, *self.given_up)",
        "The new bookie is not in the ensemble",
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_client_is_refused_with_a_run_that_shows_why(name: str, tmp_path: Path) -> None:
    number, old, new, reason = WRONG[name]
    card = refused(tmp_path, "client", number, (old, new))
    assert reason in f"{card.message}\n{card.counterexample}"


def test_a_reader_that_waits_for_every_bookie_misses_the_figure(tmp_path: Path) -> None:
    old = "        if is_covered(known, metadata):\n            return max(known.values())\n"
    new = "    if is_covered(known, metadata):\n        return max(known.values())\n"
    learner = load(with_changes(tmp_path, "client", (old, new)), seeds=1)
    while_one_is_slow = track("client").step(2).costs[1]
    assert while_one_is_slow.measure(learner) > 10 * while_one_is_slow.measure(None)


@pytest.mark.slow
def test_a_recovery_that_writes_back_to_one_bookie_after_the_other_is_right(
    tmp_path: Path,
) -> None:
    changes = (
        "    for place in places:\n        cluster.spawn(store(ensemble[place]))\n    acked = 0\n"
        "    for _ in places:\n        acked += await answers.get()\n",
        "    acked = 0\n    for place in places:\n        await store(ensemble[place])\n"
        "        acked += await answers.get()\n",
    )
    card = check("client", 6, with_changes(tmp_path, "client", changes), seeds=6)
    assert card.passed, card


@pytest.mark.slow
@pytest.mark.parametrize("step", repeated(SIMULATED), ids=lambda step: step.name)
def test_the_solution_passes_each_step_and_reaches_its_figures(step: Step) -> None:
    card = check("client", step.number, track("client").solution, seeds=12)
    assert card.passed, card
    assert "No promise broke in 12 storms" in card.message


@pytest.mark.slow
def test_a_storm_that_breaks_a_promise_is_shown_without_what_it_does_not_need(
    tmp_path: Path,
) -> None:
    change = WRONG["confirms at the first acknowledgement"][1:3]
    learner = load(with_changes(tmp_path, "client", change), seeds=12)
    with pytest.raises(Refused) as refusal:
        track("client").step(1).slow_trials[-1](learner)
    found = refusal.value.counterexample
    assert isinstance(found, RunCounterexample)
    # The storm has a seed, whereas a smaller run lists the decisions that it needs.
    assert found.trace.scenario.seed is None
    assert found.verdict.name == "AckQuorumIsReached"
    # A fork of this run uses the learner's current code.
    assert found.again is not None
    learner.part("Writer").add = _wrong
    for _ in range(2):
        with pytest.raises(CannotForkError, match="Your code raised ZeroDivisionError: no ack"):
            found.again(found.trace.scenario)


def _wrong(*_arguments: object) -> None:
    raise ZeroDivisionError("no acknowledgement is left")


LATER = {
    1: ("Writer.close", "Reader.read_last_add_confirmed", "Reader.read_entry", "recover"),
    2: ("Writer.close", "Reader.read_entry", "recover"),
    3: ("Writer.close", "recover"),
    4: ("Writer.close", "recover"),
    5: ("recover",),
}


@pytest.mark.sampled
@pytest.mark.parametrize("number", LATER)
def test_a_step_passes_before_the_later_ones_are_written(number: int) -> None:
    learner = load(track("client").solution, seeds=2)
    for name in LATER[number]:
        owner, _, method = name.rpartition(".")
        setattr(learner.part(owner) if owner else learner.module, method, _not_written)
    step = track("client").step(number)
    step.first_test.run(learner)
    for trial in (*step.quick_trials, *step.slow_trials[1:]):
        trial(learner)
    for cost in step.costs:
        assert cost.measure(learner) <= cost.at_most * cost.measure(None)


async def _not_written(*_: object) -> None:
    raise NotImplementedError


def test_the_skeleton_imports_all_that_the_solution_imports() -> None:
    names = vars(importlib.import_module("labkit.course.workshop.client.skeleton"))
    assert [name for name in api.__all__ if name not in names] == []


def test_a_recovery_that_does_not_fence_is_refused(tmp_path: Path) -> None:
    file = with_changes(
        tmp_path,
        "client",
        ("fence=True)\n    lac = max", "fence=False)\n    lac = max"),
        (
            "cluster.read_entry(bookie, entry_id, fence=True)",
            "cluster.read_entry(bookie, entry_id)",
        ),
    )
    card = check("client", 6, file, seeds=6, must_pass=False)
    assert "Bookies are fenced until the others are too few" in card.message


def test_a_read_that_waits_for_ever_is_refused_with_the_answers_it_got(tmp_path: Path) -> None:
    old = (
        "        raise next((e for e in errors if not isinstance(e, PROVES_ABSENCE)), errors[0])\n"
    )
    new = "        return await asyncio.get_running_loop().create_future()\n"
    learner = load(with_changes(tmp_path, "client", (old, new)), seeds=1)
    with pytest.raises(Refused, match="waits for ever") as refusal:
        responses_determine_the_result(learner)
    assert "BKNoSuchEntryException" in str(refusal.value.counterexample)


def test_an_error_that_a_spawned_task_does_not_catch_is_shown_with_its_line(tmp_path: Path) -> None:
    fenced_only = _SEND.partition("        except BKException:")[0]
    file = with_changes(tmp_path, "client", (_SEND, fenced_only))
    card = check("client", 1, file, seeds=1, must_pass=False)
    assert "Your code raised BKBookieHandleNotAvailableException" in card.message
    assert "await self.cluster.add_entry(bookie, pending.entry)" in card.message


@pytest.mark.parametrize(
    ("old", "new", "green"),
    [
        ("        self.failed.append(bookie)\n", "        return\n", 0),
        ("failed, self.failed = self.failed, []", "failed, self.failed = self.failed[:1], []", 2),
    ],
    ids=["nothing written", "one of two failed bookies is replaced"],
)
def test_the_tests_of_a_long_step_turn_green_one_after_the_other(
    old: str, new: str, green: int, tmp_path: Path
) -> None:
    card = check("client", 4, with_changes(tmp_path, "client", (old, new)), seeds=1)
    names = ["the first test", *(each.name for each in track("client").step(4).milestones)]
    signs = "✔" * green + "✘" + "○" * (len(names) - green - 1)
    ladder = [f"{sign} {name}" for sign, name in zip(signs, names, strict=True)]
    assert card.message.splitlines()[: len(names)] == ladder
    assert f"Start with {names[green]!r}." in card.message


@pytest.mark.slow
def test_a_new_file_is_open_at_every_step(tmp_path: Path) -> None:
    card = check("client", 1, tmp_path / "myclient.py", must_pass=False)
    assert "gives up to three hints" in card.message
    for step in track("client").steps:
        with pytest.raises(NotImplementedError):
            step.first_test.run(load(tmp_path / "myclient.py", seeds=1))
