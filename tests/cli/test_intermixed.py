"""Tests that options can appear between positional arguments."""

import pytest

from labkit.cli.intermixed import IntermixedParser


def parser() -> IntermixedParser:
    made = IntermixedParser(prog="x")
    made.add_argument("--loud", action="store_true")
    verbs = made.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("grade")
    verb.add_argument("first")
    verb.add_argument("others", nargs="*", type=int)
    verb.add_argument("--out", default="grades")
    nested = verbs.add_parser("shell")
    nested.add_argument("--json", action="store_true")
    read = nested.add_subparsers(dest="shell_verb", required=True).add_parser("read")
    read.add_argument("ledger", type=int)
    read.add_argument("last", type=int, nargs="?", default=7)
    read.add_argument("-m", action="store_true")
    return made


@pytest.mark.parametrize(
    "line", ["a 1 2 --out b", "--out b a 1 2", "a --out b 1 2", "a 1 --out b 2"]
)
def test_an_option_may_stand_anywhere_among_the_positional_arguments(line: str) -> None:
    parsed = parser().parse_args(["--loud", "grade", *line.split()])
    assert (parsed.loud, parsed.first, parsed.others, parsed.out) == (True, "a", [1, 2], "b")


def test_a_verb_of_a_verb_takes_them_too() -> None:
    parsed = parser().parse_args(["shell", "--json", "read", "3", "-m", "9"])
    assert (parsed.json, parsed.ledger, parsed.m, parsed.last) == (True, 3, True, 9)
    assert parser().parse_args(["shell", "read", "-m", "3"]).last == 7


@pytest.mark.parametrize("line", ["grade", "grade a --none", "grade a x", "shell"])
def test_what_does_not_fit_is_refused(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(line.split())
    assert "usage: x" in capsys.readouterr().err
