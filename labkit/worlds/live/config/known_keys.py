"""Tables that say which keys of a configuration file labkit obeys, refuses or ignores.

    obeyed                labkit does what the key says
    refused               the key changes what is stored or where, what is durable, or who may
                          connect, in a way that labkit does not support: only values that
                          describe what labkit does anyway are accepted
    refused by a bookie   the same for a bookie; a separate autorecovery process ignores the key
    harmless              the key tunes or observes the Java implementation: ignored, with a line

A key that is in no table is ignored too, as by BookKeeper and Pulsar, with another line: it may be
misspelt.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.resources import files

from labkit.system.model.errors import BKIncorrectParameterException

OBEYED, REFUSED, BY_A_BOOKIE, HARMLESS = "obeyed", "refused", "refused by a bookie", "harmless"

_MOST_NAMED = 20
_OF_THE_CLIENT = "bookkeeper_"
"""The prefix of the keys that Pulsar passes on to BookKeeper's client."""


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A key: its kind, and if it is refused, the reason and the values that are accepted."""

    name: str
    kind: str
    accepted: tuple[str, ...]
    why: str

    def check(self, value: str) -> None:
        """Raises `BKIncorrectParameterException` for a value that is not accepted.

        The error does not show the value, which may be a password.
        """
        if value and value.lower() not in (known.lower() for known in self.accepted):
            accepted = [known for known in self.accepted if known]
            instead = f", or set it to {' or '.join(accepted)}" if accepted else ""
            raise BKIncorrectParameterException(
                f"{self.name} asks for something that labkit does not do: {self.why}; remove"
                f" it{instead}"
            )


Table = Mapping[str, KnownKey]


@dataclass(frozen=True, slots=True)
class PassedOver:
    """The keys of a file that have no effect here; each unknown key with the key that may be meant,
    or "".
    """

    harmless: tuple[str, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """The lines to print about them."""
        lines = []
        if self.harmless:
            more = len(self.harmless) - _MOST_NAMED
            others = f" and {more} others" if more > 0 else ""
            lines.append(f"without effect here: {', '.join(self.harmless[:_MOST_NAMED])}{others}")
        if self.unknown:
            names = (f"{name} ({near}?)" if near else name for name, near in self.unknown.items())
            lines.append(f"no such key, and without effect: {', '.join(names)}")
        return lines


def bookkeeper_keys() -> Table:
    """The keys of BookKeeper's `bk_server.conf`."""
    return _read("bookkeeper_keys.tsv")


def pulsar_keys() -> Table:
    """The keys of Pulsar's `broker.conf`, and those that it passes to BookKeeper's client."""
    theirs = {}
    for key in bookkeeper_keys().values():
        name = _OF_THE_CLIENT + key.name
        if key.kind == REFUSED:
            theirs[name] = KnownKey(name, REFUSED, key.accepted, key.why)
        elif key.kind == OBEYED:
            theirs[name] = KnownKey(name, REFUSED, (), "it is a bookie's, not its client's")
        else:
            theirs[name] = KnownKey(name, HARMLESS, (), key.why)
    return theirs | _read("pulsar_keys.tsv")


def passed_over(properties: Mapping[str, str], table: Table, *, bookie: bool = True) -> PassedOver:
    """The keys that have no effect, sorted; without `bookie` the storage's keys are harmless.

    Raises `BKIncorrectParameterException` naming a key that is refused.
    """
    refusing = (REFUSED, BY_A_BOOKIE) if bookie else (REFUSED,)
    harmless = []
    unknown = {}
    for name, value in sorted(properties.items()):
        key = table.get(name)
        if key is None:
            unknown[name] = next(iter(get_close_matches(name, table, 1)), "")
        elif key.kind in refusing:
            key.check(value)
        elif key.kind != OBEYED:
            harmless.append(name)
    return PassedOver(tuple(harmless), unknown)


def check_keys(keys: Mapping[str, object], table: Table) -> None:
    """Raises `BKIncorrectParameterException` for a key that is refused or unknown."""
    unknown = passed_over({name: str(value) for name, value in keys.items()}, table).unknown
    for name, near in unknown.items():
        hint = f"; is it {near}?" if near else ""
        raise BKIncorrectParameterException(f"there is no key {name}{hint}")


def _read(name: str) -> dict[str, KnownKey]:
    """A table of this package: one key on each line, in columns separated by tabs."""
    text = files("labkit.worlds.live.config").joinpath(name).read_text(encoding="utf-8")
    keys = {}
    for line in text.splitlines():
        key, kind, accepted, why = line.split("\t")
        keys[key] = KnownKey(key, kind, tuple(accepted.split("|")), why)
    return keys
