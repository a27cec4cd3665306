"""What `read_entry` makes of its bookies' answers, tried with every combination of them."""

from itertools import product

from labkit.course.checking.exercise import Refused
from labkit.course.workshop.learner import Learner
from labkit.system.model.entry import Entry
from labkit.system.model.errors import (
    PROVES_ABSENCE,
    BKBookieHandleNotAvailableException,
    BKException,
    BKNoSuchEntryException,
    BKNoSuchLedgerExistsException,
    BKReadException,
    BKTimeoutException,
)
from labkit.system.model.ledger import LedgerMetadata, Segment
from labkit.worlds.sim.machine.loop import DeadlockError, SimLoop
from labkit.worlds.sim.run import outside_event_loops

_METADATA = LedgerMetadata(
    4, 3, 2, (Segment(0, ("b0", "b1", "b2", "b3")), Segment(6, ("b4", "b5", "b6", "b7")))
)
_WRITE_SETS = {3: ("b3", "b0", "b1"), 6: ("b6", "b7", "b4"), 7: ("b7", "b4", "b5")}
"""By entry id: the last of the first segment, and the first two of the second."""
_ERRORS: tuple[type[BKException], ...] = (
    BKNoSuchEntryException,
    BKNoSuchLedgerExistsException,
    BKTimeoutException,
    BKReadException,
    BKBookieHandleNotAvailableException,
)


class _Answers:
    """A cluster whose bookies answer as they are set to, and that notes who was asked."""

    ledger_id = 0

    def __init__(self, answers: dict[str, type[BKException] | None]) -> None:
        self._answers = answers
        self.asked: list[str] = []

    async def read_entry(self, bookie: str, entry_id: int, *, fence: bool = False) -> Entry:
        self.asked.append(bookie)
        error = self._answers.get(bookie, BKNoSuchLedgerExistsException)
        if error is not None:
            raise error(f"{bookie}, entry {entry_id}")
        return _given(entry_id)


def answers_decide(learner: Learner) -> str:
    """The entry if any of the write set gives it, else an error that says what is known."""
    answers = list(product((None, *_ERRORS), repeat=3))
    for entry_id, write_set in _WRITE_SETS.items():
        for case in answers:
            _try_case(learner, entry_id, dict(zip(write_set, case, strict=True)))
    return f"{len(answers) * len(_WRITE_SETS)} combinations of answers were read rightly."


def _given(entry_id: int) -> Entry:
    return Entry(0, entry_id, entry_id - 1, 80, b"the entry")


def _try_case(
    learner: Learner, entry_id: int, answers: dict[str, type[BKException] | None]
) -> None:
    cluster = _Answers(answers)
    story = ", ".join(
        f"{bookie} {error.__name__ if error else 'gives it'}" for bookie, error in answers.items()
    )
    case = f"Entry {entry_id} of {_METADATA.segments}; {story}."
    try:
        # The simulated loop, as asyncio's does not run in a browser tab.
        said = outside_event_loops(lambda: SimLoop().run(_read(learner, cluster, entry_id)))
    except DeadlockError:
        raise Refused("Every bookie has answered, and `read_entry` waits for ever.", case) from None
    case += f" You asked {cluster.asked}"
    stray = [bookie for bookie in cluster.asked if bookie not in answers]
    if stray:
        raise Refused(
            f"{stray[0]} is not in the write set of entry {entry_id}: that is"
            f" {', '.join(answers)}, places {entry_id % 4}, {(entry_id + 1) % 4} and"
            f" {(entry_id + 2) % 4} of its segment's ensemble.",
            case,
        )
    if None in answers.values():
        if said != _given(entry_id):
            raise Refused(f"A bookie gives the entry, and `read_entry` came to {said!r}.", case)
        return
    _judge_error(said, [error for error in answers.values() if error is not None], case)


def _judge_error(said: object, errors: list[type[BKException]], case: str) -> None:
    if not isinstance(said, BKException):
        raise Refused(
            f"No bookie returned the entry, so `read_entry` must raise; it returned {said!r}.", case
        )
    all_deny = all(issubclass(error, PROVES_ABSENCE) for error in errors)
    if isinstance(said, PROVES_ABSENCE) and not all_deny:
        raise Refused(
            "A bookie that is silent, down or cannot read may have the entry: then absence is not"
            f" proven, and {type(said).__name__} says that it is.",
            case,
        )
    if all_deny and not isinstance(said, PROVES_ABSENCE):
        raise Refused(
            "All bookies of the write set looked and have no such entry. That is a proof, and"
            f" {type(said).__name__} hides it.",
            case,
        )


async def _read(learner: Learner, cluster: _Answers, entry_id: int) -> object:
    with learner.noting():
        try:
            return await learner.part("Reader")(cluster, _METADATA).read_entry(entry_id)
        except BKException as error:
            return error
