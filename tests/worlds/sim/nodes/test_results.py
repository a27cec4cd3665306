"""Results returned to callers are checked, even if the system's own events show no problem."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.underreplication import LedgerUnderreplicationManager
from labkit.system.broker.dispatch.dispatcher import Dispatcher
from labkit.system.check import Outcome, broken, check_all
from labkit.system.client.ensemble_change import EnsembleChange
from labkit.system.client.reads import SequenceRead
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.entry import Entry
from labkit.system.model.ledger import LedgerMetadata
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.messages import OutgoingMessage, encode_message, split_entry
from labkit.system.topic.producing.publishing import TopicPublisher
from labkit.system.trace.answers import AddReturned, EntriesRead, StepOutlastedRun
from labkit.worlds.sim.explore.shrink import shrink
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash, Delay, FullDisk, Reset
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.workload.consume import Consume
from labkit.worlds.sim.workload.publish import Publish
from labkit.worlds.sim.workload.steps import Read, Recover, Write
from tests.worlds.sim.runs import Mistake, checks_of, planted, run_safely

WRITE = Write(entries=6)
LATE = tuple(Delay(bookie, "w", 5) for bookie in ("b1", "b2"))
CRASH = Crash("b1", when=On("add.acked", 4))
LATER = Crash("b1", when=At(3000))

READ = Scenario(workload=(WRITE, Recover(when=On("ledger.closed"))))
CHANGE = Scenario(Cluster(4), (WRITE,), (CRASH,), limit_s=5)
PUBLISH = Scenario(Cluster(brokers=1), (Publish(messages=6),), limit_s=5)
LOSS = Scenario(
    Cluster(4, autorecovery=AutoRecoveryConfig()), (WRITE, Read(when=At(20_000))), (LATER,)
)
CONSUME = Scenario(Cluster(brokers=1), (Publish(messages=8), Consume(messages=8)), limit_s=10)
MORE = Publish(messages=8), Consume(messages=9, is_cumulative=True)
AGAIN = CONSUME.with_fault(Reset("broker0", "c", On("batch.stored", 8)))

MISTAKES: list[Any] = []
mistake = partial(planted, MISTAKES)
on_responses, read_sequence = LedgerWriter.on_responses, SequenceRead.run
closed, append = LedgerMetadata.closed, ManagedLedger.append_entries
read_for_consumers = Dispatcher.read_entries


@mistake("AddsReturnWhenConfirmed", Scenario(faults=LATE), LedgerWriter, "on_responses")
def answer_at_the_first_acknowledgement(
    self: LedgerWriter, index: int, channel: Any, adds: Any, error: Any
) -> None:
    for add in adds:
        if not add.future.done():
            add.future.set_result(add.entry_id)
    on_responses(self, index, channel, adds, error)


@mistake("ReadsReturnWhatWasWritten", READ, SequenceRead, "run")
async def return_entries_backwards(self: SequenceRead) -> list[Entry]:
    return (await read_sequence(self))[::-1]


@mistake("ClosedLengthIsRight", Scenario(workload=(WRITE,)), LedgerMetadata, "closed")
def close_with_length_0(self: LedgerMetadata, last: int, _: int) -> LedgerMetadata:
    return closed(self, last, 0)


@mistake("StepsEnd", CHANGE, EnsembleChange, "_run")
async def hang_in_every_ensemble_change(_: object, *__: object) -> None:
    await asyncio.get_running_loop().create_future()


@mistake("StepsEnd", PUBLISH, TopicPublisher, "schedule_receipts")
def send_no_receipt(*_: object) -> None:
    pass


payloads = [b"first"]


@mistake("MessagesKeepTheirContent", PUBLISH, ManagedLedger, "append_entries")
async def store_the_payload_before(self: ManagedLedger, entries: Any) -> Any:
    for entry in entries:
        metadata, payload = split_entry(entry.data, 0, 0)
        payloads.append(payload)
        message = OutgoingMessage(payloads[-2], "", 0, (), metadata.sequence_id)
        entry.data = encode_message(message, metadata.producer_name, metadata.publish_time)
    return await append(self, entries)


@mistake("DeliveriesKeepTheOrder", CONSUME, Dispatcher, "read_entries")
async def deliver_backwards(self: Dispatcher, start: Any, max_messages: int) -> list[Any]:
    return (await read_for_consumers(self, start, max_messages))[::-1]


@mistake("NoMessageIsSkipped", replace(CONSUME, workload=MORE), Dispatcher, "read_entries")
async def skip_an_entry(self: Dispatcher, start: Any, max_messages: int) -> list[Any]:
    entries = await read_for_consumers(self, start, max_messages)
    return [each for each in entries if each.position[1] != 1]


@mistake("AcknowledgedIsNotDeliveredAgain", AGAIN, ManagedCursor, "acknowledge")
def forget_acknowledgements(*_: object) -> None:
    pass


@mistake("LostBookiesLedgersAreMarked", LOSS, LedgerUnderreplicationManager, "mark")
async def mark_nothing(_: object, *__: object) -> None:
    pass


@mistake("MarkedLedgersAreRepaired", LOSS, LedgerUnderreplicationManager, "unmark_and_release")
async def keep_every_mark(self: LedgerUnderreplicationManager, ledger_id: int) -> bool:
    await self.release(ledger_id)
    await asyncio.sleep(1)  # This keeps the run from repairing the ledger thousands of times.
    return True


@pytest.mark.sampled
@pytest.mark.parametrize("mistake", MISTAKES)
def test_wrong_answer_breaks_a_promise_and_the_right_one_keeps_it(
    mistake: Mistake, monkeypatch: pytest.MonkeyPatch
) -> None:
    [verdict] = check_all(run(mistake.where), checks_of(mistake.promise))
    assert verdict.outcome is Outcome.VALID, verdict
    checks = mistake.plant(monkeypatch)
    assert len(broken(check_all(run(mistake.where), checks))) == 1


@pytest.mark.parametrize("writes", [(), (Write(when=On("bookie.lost")),)])
def test_a_step_that_waits_for_a_ledger_that_no_step_makes_breaks_no_promise(
    writes: tuple[Write, ...],
) -> None:
    trace = run_safely(Scenario(workload=(*writes, Recover()), limit_s=5))
    [waited] = [each for each in trace.answers if isinstance(each, StepOutlastedRun)]
    assert waited.has_ended


@pytest.mark.slow
def test_finding_in_answers_can_be_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EnsembleChange, "_run", hang_in_every_ensemble_change)
    smaller = shrink(CHANGE.with_fault(Crash("b3", when=At(2000))), checks=checks_of("StepsEnd"))
    assert smaller.verdict.name == "StepsEnd"
    assert [type(fault) for fault in smaller.scenario.faults] == [Crash]


def test_answers_stand_behind_the_events_that_led_to_them() -> None:
    trace = run(READ)
    assert [type(each) for each in trace.answers] == [AddReturned] * 6 + [EntriesRead]
    for answer in trace.answers[:6]:
        assert isinstance(answer, AddReturned)
        before = trace.events[: answer.at]
        confirmed = [each.entry for each in before if each.kind == "lac.advanced"]
        assert answer.content.entry in confirmed


def test_trace_holds_nothing_that_a_step_does_after_the_end_of_the_run() -> None:
    slow = Scenario(workload=(Write(entries=3, every_ms=2000),), limit_s=3, ends_in_power_cut=False)
    trace = run(slow)
    [*_, last] = trace.answers
    assert isinstance(last, StepOutlastedRun)
    assert last.has_ended
    assert not [event for event in trace.events if event.kind == "step.ended"]
    assert trace.ended_at_s < 4
    assert max(due for *_, due in trace.parcels) < 5e6


def test_an_answer_after_the_end_of_the_run_is_not_judged() -> None:
    write = Write(entries=2, write_quorum=2, ack_quorum=1, window=1)
    full = FullDisk("b1", when=On("lac.advanced"))
    # The ensemble change receives no response before the end, and entry 1 is confirmed only
    # afterwards.
    late = Scenario(workload=(write,), faults=(full,), decisions={"lose zk>w 11": 1}, limit_s=7)
    trace = run_safely(late)
    assert [type(each) for each in trace.answers] == [AddReturned, StepOutlastedRun]
