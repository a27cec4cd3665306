"""The state that a kernel keeps for a learner: hints taken and predictions made.

It is lost when the kernel stops, unless the learner has turned on recording (`record`).
"""

from labkit.course.checking.card import Note
from labkit.course.checking.exercise import HINT_COUNT, find
from labkit.course.checking.record import append_record

_hints_taken: dict[str, int] = {}
_predictions: dict[str, object] = {}


def hint(name: str) -> Note:
    """Return the exercise's next hint; the third one is repeated.

    Raises `NoSuchExerciseError` for an unknown name.
    """
    return next_hint(name, find(name).hints)


def next_hint(name: str, hints: tuple[str, ...]) -> Note:
    """Return the next of the hints for an exercise or for a step of the workshop."""
    taken = min(_hints_taken.get(name, 0) + 1, HINT_COUNT)
    _hints_taken[name] = taken
    append_record(event="hint", name=name, hint=taken)
    return Note(f"Hint {taken} of {HINT_COUNT} for {name}", (hints[taken - 1],))


def predict(name: str, value: object) -> Note:
    """Record the value that the learner expects the code to produce; None means no prediction."""
    if value is None:
        return Note(f"No prediction yet: {name}", ("Put yours in the place of None.",))
    _predictions[name] = value
    append_record(event="predicted", name=name, predicted=repr(value))
    return Note(f"Your prediction is kept: {name}", (repr(value),))


def compare(name: str, truth: object) -> Note:
    if name not in _predictions:
        return Note(f"Not predicted: {name}", (f"it is {truth!r}",))
    predicted = _predictions[name]
    is_right = bool(_as_list(predicted) == _as_list(truth))
    noted = {"predicted": repr(predicted), "truth": repr(truth), "is_right": is_right}
    append_record(event="compared", name=name, **noted)
    verdict = "As predicted" if is_right else "Not as predicted"
    return Note(f"{verdict}: {name}", (f"predicted {predicted!r}", f"it is     {truth!r}"))


def _as_list(value: object) -> object:
    # A learner need not know whether labkit uses a list or a tuple.
    return list(value) if isinstance(value, tuple) else value
