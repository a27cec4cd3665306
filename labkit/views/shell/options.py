"""Declares command-line options as they appear in a usage text: flags, then the name of the value.

option("-l --ledger LEDGER", "only entries of this ledger", type=int)
flag("-m", "also print the data of entries")
"""

import argparse
from dataclasses import dataclass
from typing import Any

ZOOKEEPER_ADDRESS = "host:port of ZooKeeper, or zk+null://host:port/ledgers"
"""The help text of options `--zookeeper`."""


@dataclass(frozen=True, slots=True)
class Option:
    """The arguments of argparse's `add_argument`."""

    names: tuple[str, ...]
    settings: dict[str, Any]

    def add_to(self, parser: "argparse._ActionsContainer", **more: Any) -> None:
        parser.add_argument(*self.names, **self.settings, **more)


def option(usage: str, help_text: str, **settings: Any) -> Option:
    """Declare an option with a value or, if `usage` contains no flag, a positional argument."""
    *others, last = usage.split()
    if last.startswith("-"):
        return Option((*others, last), {"help": help_text, **settings})
    names = tuple(others) or (last.lower(),)
    return Option(names, {"metavar": last, "help": help_text, **settings})


def flag(usage: str, help_text: str, **settings: Any) -> Option:
    return option(usage, help_text, action="store_true", **settings)
