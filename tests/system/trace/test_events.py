import pytest

from labkit.system.trace.events import KINDS, Event, Kind
from labkit.system.trace.recorder import Row


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_kinds_causes_are_known_kinds_and_never_itself(kind: Kind) -> None:
    assert {name for name, _ in kind.causes} <= KINDS.keys() - {kind.name}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_kind_says_what_it_means_in_one_line(kind: Kind) -> None:
    assert kind.meaning
    assert "\n" not in kind.meaning
    assert not kind.meaning.endswith(".")


def test_causes_of_causes_come_to_an_end() -> None:
    def depth(name: str, above: tuple[str, ...] = ()) -> int:
        assert name not in above
        return 1 + max((depth(c, (*above, name)) for c, _ in KINDS[name].causes), default=0)

    assert max(map(depth, KINDS)) == depth("batch.stored") == 8


def test_an_event_is_a_row_with_number_and_cause() -> None:
    assert [name for name in Event._fields if name not in ("seq", "cause")] == list(Row._fields)
