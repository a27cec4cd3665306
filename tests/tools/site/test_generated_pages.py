"""Tests that the generated pages of the site show what the code and the tests declare."""

import re

import pytest

from labkit.worlds.live.processes.broker_config import PULSAR_KEYS
from labkit.worlds.live.processes.server_config import BOOKKEEPER_KEYS
from tools.site.configuration_page import configuration_page
from tools.site.errors_page import COURSE, INTERNAL, REMEDIES, Errors, errors_page, sources
from tools.site.promises_page import promises_page
from tools.site.pyodide import ROOT


@pytest.mark.slow
def test_each_obeyed_key_has_a_row_with_its_default_and_its_lessons() -> None:
    page = configuration_page()
    for key in (*BOOKKEEPER_KEYS.obeyed, *PULSAR_KEYS.obeyed):
        assert f"| `{key}` |" in page
    row = next(line for line in page.splitlines() if line.startswith("| `journalMaxSizeMB` "))
    assert "`2048`" in row
    assert "02-journal.ipynb" in row
    port = next(line for line in page.splitlines() if line.startswith("| `bookiePort` "))
    assert port.endswith("|  |"), "no lesson sets it, although many lessons contain the word port"


@pytest.mark.slow
def test_each_error_of_labkit_is_on_the_page_with_the_forms_of_its_messages() -> None:
    page = errors_page()
    errors = Errors(sources())
    assert [name for name in errors.documented() if f"### `{name}`" not in page] == []
    assert {*REMEDIES, *INTERNAL, *COURSE} <= errors.classes.keys()
    for row in (
        # A literal, a text that a helper receives, a base class with more arguments, a rule
        "| `this broker is shutting down` | `system/broker/broker_service.py` |",
        "| `{name} is down and cannot be {verb}; restart it first` |",
        "| `Port: {port} of 127.0.0.1 is in use by another program; stop that program, or use",
        "| `{authorization_enabled} requires {authentication_enabled}=true, because a client",
        # A command, and an exercise
        "| `the limit must be greater than 0, got {text}` | `course/grading/arguments.py` |",
        "| `When a second bookie is missing, some entries may be down to their last copy,",
    ):
        assert row in page


@pytest.mark.slow
def test_each_marked_promise_is_on_the_page_with_its_test() -> None:
    page = promises_page()
    markers = sum(
        len(re.findall(r"^@pytest\.mark\.promise\(", path.read_text(encoding="utf-8"), re.M))
        for path in (ROOT / "tests").rglob("test_*.py")
    )
    scripts = sum(
        len(re.findall(r"^promise: ", path.read_text(encoding="utf-8"), re.M))
        for path in (ROOT / "tests").rglob("*.txt")
    )
    assert markers + scripts > 200
    assert page.count("<br>") == markers + scripts
    assert (
        "- A damaged message is not stored.<br>`tests/system/broker/protocol/test_connection.py"
        " test_damaged_message_closes_its_producer_alone`" in page
    )
