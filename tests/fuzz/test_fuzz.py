"""Every decoder handles malformed and hostile input; `python -m tests.fuzz` tries much more."""

import struct
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labkit.system.model.errors import LabkitError
from tests.fuzz import __main__ as command
from tests.fuzz.harness import LIMIT_S, Case, Target, shrink, try_input
from tests.fuzz.targets import TARGETS

pytestmark = pytest.mark.slow

CASES = 40
SOON_S = 0.05


def spin(_: bytes) -> None:
    while True:
        pass


def believe(data: bytes) -> bytearray:
    """Allocate as much memory as the input claims to need."""
    return bytearray(int.from_bytes(data[:4], "big"))


def look_up(data: bytes) -> object:
    nothing: dict[int, object] = {}
    return nothing[data[0]] if b"X" in data else None


def refuse_without_a_word(_: bytes) -> None:
    raise LabkitError


def give_one_by_one(data: bytes) -> Iterator[int]:
    yield from data
    raise IndexError


BAD: list[tuple[Callable[[bytes], object], bytes, str]] = [
    (look_up, b"..X.....", "builtins.KeyError in test_fuzz.py:look_up"),
    (spin, b"", "hang"),
    (believe, b"\x00\x80\x00\x00", "memory"),
    (refuse_without_a_word, b"", "silent error"),
    (give_one_by_one, b"abc", "builtins.IndexError in test_fuzz.py:give_one_by_one"),
]


@pytest.mark.parametrize("name", TARGETS)
def test_a_decoder_accepts_the_seeds_of_its_fuzzing(name: str) -> None:
    target = TARGETS[name]
    for seed in target.seeds:
        value = target.decode(seed)
        if isinstance(value, Iterator):
            deque(value, maxlen=0)


@pytest.mark.promise(
    "Any bytes are decoded or rejected with a clear error, quickly and with little memory"
)
@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_give_a_value_or_a_clear_error_soon_and_in_little_memory(name: str) -> None:
    target = TARGETS[name]
    for number in range(CASES):
        assert try_input(target, Case(target, number).data()) is None, f"case {number}"


@pytest.mark.parametrize(("decode", "data", "kind"), BAD)
def test_a_bad_decoder_is_found(decode: Callable[[bytes], object], data: bytes, kind: str) -> None:
    limit_s = SOON_S if kind == "hang" else LIMIT_S
    finding = try_input(Target("bad", decode, ()), data, limit_s)
    assert finding is not None
    assert finding.kind == kind


def test_a_case_is_repeated_by_its_number() -> None:
    target = TARGETS["journal 6"]
    inputs = [Case(target, number).data() for number in range(50)]
    assert inputs == [Case(target, number).data() for number in range(50)]
    assert len(set(inputs)) > 40
    assert inputs != [Case(TARGETS["index"], number).data() for number in range(50)]


def test_a_finding_is_printed_with_a_small_input_and_how_to_repeat_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = Target("bad", look_up, (bytes(300) + b"X" + bytes(300),))
    monkeypatch.setattr(command, "TARGETS", {"bad": target, "good": TARGETS["lastMark"]})
    monkeypatch.setattr(command, "ARTIFACTS", tmp_path)
    assert command.main(["--seconds", "60", "--first", "3"]) == 1
    said = capsys.readouterr().out
    kept = next(tmp_path.iterdir())
    assert kept.read_bytes() == b"X"
    assert "bad, case 3: builtins.KeyError in test_fuzz.py:look_up" in said
    assert f'--target "bad" --input {kept}' in said
    assert command.main(["--target", "bad", "--input", str(kept)]) == 1
    assert command.main(["--target", "bad", "--only", "3"]) == 1
    assert command.main(["--target", "good", "--only", "3"]) == 0


def test_a_run_that_finds_nothing_says_where_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "TARGETS", {"good": TARGETS["lastMark"]})
    assert command.main(["--seconds", "0", "--first", "70"]) == 0
    assert "go on with --first 71" in capsys.readouterr().out


def test_a_shrunk_input_still_fails_in_the_same_way() -> None:
    def decode(data: bytes) -> None:
        if len(data) >= 20 and data[7:11] == struct.pack(">i", -5):
            raise ZeroDivisionError

    target = Target("bad", decode, ())
    data = bytes(range(1, 8)) + struct.pack(">i", -5) + bytes(range(1, 200))
    finding = try_input(target, data)
    assert finding is not None
    assert shrink(target, data, finding) == bytes(7) + struct.pack(">i", -5) + bytes(9)
