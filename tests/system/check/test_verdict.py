"""Test how verdicts are explained to the reader."""

from labkit.system.check import Outcome, broken, check_all, explain
from labkit.system.check.promises.durability import AcknowledgedIsDurable
from labkit.system.check.promises.fencing import FenceIsDurableBeforeTheResponse
from labkit.system.check.promises.specification import OnlyValidFragments
from labkit.system.check.promises.writing import LacAdvancesInOrder
from tests.system.check.story import B0, B1, B2, R, Story, W

LOST = Story().add(0, 1).fence(B0, B1, lac=0).end(0)


def test_a_valid_verdict_is_one_line() -> None:
    verdict = Story().add(0, 1).verdict(LacAdvancesInOrder)
    assert repr(verdict) == f"✔ LacAdvancesInOrder: valid. {LacAdvancesInOrder.promise}"


def test_a_broken_promise_reads_as_promise_reason_and_sequence() -> None:
    verdict = LOST.verdict(AcknowledgedIsDurable)
    head, reason, *sequence = repr(verdict).splitlines()
    assert head == f"✘ AcknowledgedIsDurable: invalid. {AcknowledgedIsDurable.promise}"
    assert reason == (
        f"At {verdict.seq + 1}.000 ms, event {verdict.seq}: recoverer closed ledger 7"
        " at entry 0, although entry 1 had been confirmed to writer."
    )
    assert sequence == verdict.sequence.splitlines()
    marked = [line for line in sequence if line.startswith("→")]
    [line] = marked
    assert line.endswith("ledger 7 is closed; its last entry is 0")
    assert line.split()[1:4] == [f"{verdict.seq + 1}.000", "ms", str(verdict.seq)]


def test_a_lineage_is_in_order_and_holds_every_cause() -> None:
    verdict = LOST.verdict(AcknowledgedIsDurable)
    numbers = [event.seq for event in verdict.lineage]
    assert numbers == sorted(set(numbers))
    assert {verdict.seq, *verdict.witnesses} <= set(numbers)
    assert {event.cause for event in verdict.lineage} <= {-1, *numbers}


def test_a_card_escapes_html_in_names() -> None:
    story = Story().push(0, W).tell("<b>", "add.pushed", 1)
    [card] = [v._repr_html_() for v in broken(check_all(story.events)) if v.name == "OneWriter"]
    assert "<b>OneWriter" not in card
    assert "&lt;b&gt; pushed entry 1" in card
    assert "✘ OneWriter: invalid" in card


def test_a_card_of_an_open_question_says_what_is_missing() -> None:
    verdict = Story(whole=False).confirm(3).verdict(LacAdvancesInOrder)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "The trace does not include the creation of ledger 7." in verdict._repr_html_()
    assert "<pre" not in verdict._repr_html_()


def test_explaining_twice_changes_nothing() -> None:
    verdict = LOST.verdict(AcknowledgedIsDurable)
    assert explain(verdict, LOST.events) == verdict


# The two bugs in BookKeeper 4.13 and earlier that were found with the public specification


def test_recovery_reads_that_do_not_fence_are_rejected() -> None:
    """BookKeeper #2614: b2 was not fenced, reported the entry as missing, then accepted the
    writer's add.
    """
    run = Story().push(0).send(0, B0, B1, B2).put(0, B1).sync(0, B1).fence(B0, B1)
    run.deny(0, B0, B2, node=R).end(-1)
    run.put(0, B2).sync(0, B2).ack(0, B1, B2).confirm(0)
    names = [verdict.name for verdict in broken(check_all(run.events))]
    assert names == [
        "AcknowledgedIsDurable",
        "OneWriter",
        FenceIsDurableBeforeTheResponse.__name__,
        "NoDivergenceBetweenClientAndMetaData",
    ]


def test_a_recovery_that_goes_back_behind_the_last_fragment_is_rejected() -> None:
    """The last segment's bookies had no entry, so recovery started at 0 and changed that
    ensemble.
    """
    run = Story().add(0, 1).tell(W, "ensemble.set", 2, ensemble=("b0", "b1", "b3")).fence(B0, B1)
    run.tell(R, "ensemble.set", 1, ensemble=("b0", "b1", "b4")).end(1)
    names = [verdict.name for verdict in broken(check_all(run.events))]
    assert OnlyValidFragments.__name__ in names
