"""What one kernel remembers of a learner: the hints taken and the predictions made.

It is gone with the kernel, unless the learner turned on the switch that saves it (`record`).
"""

from labkit.course.checking.card import Note
from labkit.course.checking.exercise import HINT_COUNT, find
from labkit.course.checking.record import keep

_hints_taken: dict[str, int] = {}
_predictions: dict[str, object] = {}


def hint(name: str) -> Note:
    """The exercise's next hint; after the third the third again.

    Raises `NoSuchExerciseError` for a name that no exercise has.
    """
    hints = find(name).hints
    taken = min(_hints_taken.get(name, 0) + 1, HINT_COUNT)
    _hints_taken[name] = taken
    keep(event="hint", name=name, hint=taken)
    return Note(f"Hint {taken} of {HINT_COUNT} for {name}", (hints[taken - 1],))


def predict(name: str, value: object) -> Note:
    """Record what you expect, before it runs.  None records nothing."""
    if value is None:
        return Note(f"No prediction yet: {name}", ("Put yours in the place of None.",))
    _predictions[name] = value
    keep(event="predicted", name=name, predicted=repr(value))
    return Note(f"Your prediction is kept: {name}", (repr(value),))


def compare(name: str, truth: object) -> Note:
    """What you expected beside what came."""
    if name not in _predictions:
        return Note(f"Not predicted: {name}", (f"it is {truth!r}",))
    predicted = _predictions[name]
    is_right = bool(_as_list(predicted) == _as_list(truth))
    noted = {"predicted": repr(predicted), "truth": repr(truth), "is_right": is_right}
    keep(event="compared", name=name, **noted)
    verdict = "As predicted" if is_right else "Not as predicted"
    return Note(f"{verdict}: {name}", (f"predicted {predicted!r}", f"it is     {truth!r}"))


def _as_list(value: object) -> object:
    # A learner need not know whether labkit has a list or a tuple.
    return list(value) if isinstance(value, tuple) else value
