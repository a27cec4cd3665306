"""Tests for the ranges of settings and for their keys in configuration files."""

import pickle
from dataclasses import dataclass
from typing import Any

import pytest

from labkit.system.model.settings import (
    InvalidSettingException,
    Named,
    check_ranges,
    setting,
    settings_by_key,
)


@dataclass(frozen=True, slots=True)
class Sizes:
    size: int = setting(8, "sizeMB", at_least=4, at_most=64, multiple_of=4)
    limit: int = setting(-1, "limit", at_least=1, or_else=-1)
    free: int = 0

    def __post_init__(self) -> None:
        check_ranges(self)


@pytest.mark.parametrize("taken", [{}, {"size": 4}, {"size": 64}, {"limit": 1}, {"free": -7}])
def test_a_value_in_its_range_is_taken(taken: dict[str, Any]) -> None:
    Sizes(**taken)


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        ({"size": 3}, "size is 3; it must be at least 4 and at most 64, and a multiple of 4"),
        ({"size": 68}, "size is 68; it must be at least 4 and at most 64, and a multiple of 4"),
        ({"size": 6}, "size is 6; it must be at least 4 and at most 64, and a multiple of 4"),
        ({"limit": 0}, "limit is 0; it must be at least 1, or -1"),
        ({"limit": -2}, "limit is -2; it must be at least 1, or -1"),
    ],
)
def test_a_value_out_of_its_range_is_rejected(refused: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSettingException) as said:
        Sizes(**refused)
    assert str(said.value) == message
    assert str(pickle.loads(pickle.dumps(said.value))) == message


def test_nan_is_in_no_range() -> None:
    with pytest.raises(InvalidSettingException, match="size is nan"):
        Sizes(size=float("nan"))  # type: ignore[arg-type]


def test_a_rule_names_fields_as_the_user_wrote_them() -> None:
    error = InvalidSettingException(Sizes(), "{size}, above {limit.value}; lower {size.name}")
    assert str(error) == "size is 8, above -1; lower size"
    assert error.message({"size": Named("sizeMB", "0x8")}) == (
        "sizeMB is 0x8, above -1; lower sizeMB"
    )


def test_only_a_field_with_a_key_is_one_of_a_file() -> None:
    assert {key: field.name for key, (field, _) in settings_by_key(Sizes).items()} == {
        "sizeMB": "size",
        "limit": "limit",
    }
