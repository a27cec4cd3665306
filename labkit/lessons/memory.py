"""What one kernel remembers of a learner: the hints taken and the predictions made.

Nothing of it is stored: with the kernel it is gone.
"""

from labkit.lessons.card import Note
from labkit.lessons.exercise import HINT_COUNT, find

_hints_taken: dict[str, int] = {}
_predictions: dict[str, object] = {}


def hint(name: str) -> Note:
    """The exercise's next hint; after the third the third again.

    Raises `NoSuchExerciseError` for a name that no exercise has.
    """
    hints = find(name).hints
    taken = min(_hints_taken.get(name, 0) + 1, HINT_COUNT)
    _hints_taken[name] = taken
    return Note(f"Hint {taken} of {HINT_COUNT} for {name}", (hints[taken - 1],))


def predict(name: str, value: object) -> Note:
    """Record what you expect, before it runs.  None records nothing."""
    if value is None:
        return Note(f"No prediction yet: {name}", ("Put yours in the place of None.",))
    _predictions[name] = value
    return Note(f"Your prediction is kept: {name}", (repr(value),))


def compare(name: str, truth: object) -> Note:
    """What you expected beside what came."""
    if name not in _predictions:
        return Note(f"Not predicted: {name}", (f"it is {truth!r}",))
    predicted = _predictions[name]
    verdict = "As predicted" if predicted == truth else "Not as predicted"
    return Note(f"{verdict}: {name}", (f"predicted {predicted!r}", f"it is     {truth!r}"))
