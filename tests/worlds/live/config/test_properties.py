"""Tests for parsing the lines of a configuration file."""

import pytest

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.live.config.properties import fields_in, parse_properties
from labkit.worlds.live.processes.server_config import BookieSettings


@pytest.mark.parametrize(
    "line",
    [
        "key=a:b c",
        "key:a:b c",
        "key a:b c",
        "key = a:b c",
        "key : a:b c",
        "key\ta:b c",
        " key=a:b c ",
    ],
)
def test_a_key_ends_as_in_javas_properties(line: str) -> None:
    assert parse_properties(line.encode(), "the.conf") == {"key": "a:b c"}


@pytest.mark.parametrize("line", [b"c2VjcmV0", b"c2VjcmV0\xff", b"=c2VjcmV0", b":c2VjcmV0"])
def test_a_line_that_is_refused_is_not_printed(line: bytes) -> None:
    with pytest.raises(BKIncorrectParameterException) as refused:
        parse_properties(line, "the.conf")
    assert "c2VjcmV0" not in str(refused.value)


def test_a_boolean_of_python_is_understood() -> None:
    properties = {"allowStorageExpansion": "True"}
    assert fields_in(properties, BookieSettings) == {"allow_storage_expansion": True}
