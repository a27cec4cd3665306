"""Generates scripts for `Writer`, with a different kind of script for each of the steps 1, 2, 4 and
5.
"""

from labkit.course.checking.generated_cases import Draw
from labkit.course.workshop.client.writer_script import (
    Move,
    Script,
    moves_of,
    new_metadata,
    play_scripts,
)
from labkit.course.workshop.learner import Learner
from labkit.system.model.ledger import LedgerMetadata

_COUNT = 450
_APPENDING = (Move.ADD, *(Move.ACKNOWLEDGE,) * 4, Move.FAIL, Move.CRASH)
_CHANGING = (*_APPENDING, *(Move.ACCESS,) * 3)
_CLOSING = (*_CHANGING, Move.REWRITE, Move.REWRITE, Move.RECOVER)


def adds_are_confirmed_in_order(learner: Learner) -> str:
    """Check what a writer sends, and which of its adds have returned after each response."""
    return play_scripts(learner, lambda draw: _appends(draw, announces=False), _COUNT)


def entries_carry_lac(learner: Learner) -> str:
    """In addition, check the LastAddConfirmed that each entry carries."""
    return play_scripts(learner, lambda draw: _appends(draw, announces=True), _COUNT)


def failed_bookies_are_replaced(learner: Learner) -> str:
    """Check the new segments, the entries that are resent, and the adds that return afterwards."""
    return play_scripts(learner, _changes, _COUNT)


def writers_end(learner: Learner) -> str:
    """Check how a writer ends after it has been closed or fenced."""
    return play_scripts(learner, _ends, _COUNT)


def _appends(draw: Draw, *, announces: bool) -> Script:
    metadata, moves = new_metadata(draw), moves_of(draw, Move.ADD, _APPENDING, 20)
    return Script(metadata, (), tuple(moves), replaces=False, announces=announces)


def _changes(draw: Draw) -> Script:
    metadata = new_metadata(draw)
    writable = _writable(draw, metadata)
    others = (*_CHANGING * 3, Move.RECOVER) if draw.chance(25) else _CHANGING
    moves = moves_of(draw, Move.ADD, others, 60)
    return Script(metadata, writable, tuple(moves), replaces=True, announces=False)


def _ends(draw: Draw) -> Script:
    metadata = new_metadata(draw)
    writable = _writable(draw, metadata)
    # Make this choice before choosing the moves, so that the end of a failing script can be cut
    # off.
    is_closed = draw.number(0, 2) > 0
    others = _CHANGING if is_closed else (*_CHANGING, Move.FENCE, Move.FENCE)
    moves = moves_of(draw, Move.ADD, others, 20)
    if is_closed:
        closing = (*_CLOSING, *(Move.END,) * 3) if draw.chance(50) else _CLOSING
        moves += moves_of(draw, Move.CLOSE, closing, 20)
    return Script(metadata, writable, tuple(moves), replaces=True, announces=False)


def _writable(draw: Draw, metadata: LedgerMetadata) -> tuple[str, ...]:
    """Return the spare bookies and the registered bookies of the ensemble, in random order."""
    spare = [f"s{number}" for number in range(2 * draw.number(0, 4))]
    registered = [each for each in metadata.segments[0].ensemble if draw.number(0, 3)]
    return tuple(draw.shuffled([*registered, *spare]))
