"""The keys of a configuration file that labkit obeys, rejects or ignores.

    obeyed                The key belongs to a field of a settings class
                          (`labkit.system.model.settings`).
    rejected              The key controls what is stored and where, what is durable, or who may
                          connect, and labkit does not support it. The only values accepted are
                          those that describe labkit's behavior (see the tables in this directory).
    rejected by a bookie  A bookie rejects the key in the same way, but a separate autorecovery
                          process ignores it.

All other keys are ignored. Most of them tune or monitor the Java implementation. A server prints
the names of the ignored keys on one line, because the user may have misspelled a key.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, dataclass
from difflib import get_close_matches
from importlib.resources import files
from typing import Any

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.model.settings import Setting, settings_by_key

REFUSED, BY_A_BOOKIE = "refused", "refused by a bookie"

_MIN_SIMILARITY = 0.88
"""Minimum similarity (0 to 1) for an unknown key to count as a misspelling of a known one."""
_MAX_LISTED_KEYS = 20


@dataclass(frozen=True, slots=True)
class RefusedKey:
    """A key that is rejected unless its value is one of `accepted`.

    `by` says whether all servers or only bookies reject the key. `why` is the reason shown to the
    user.
    """

    name: str
    by: str
    accepted: tuple[str, ...]
    why: str

    def check(self, value: str) -> None:
        """Raise `BKIncorrectParameterException` if the value is not accepted.

        The error does not show the value, because it may be a password.
        """
        if value.lower() not in (each.lower() for each in self.accepted):
            accepted = [each for each in self.accepted if each]
            alternative = f", or set it to {' or '.join(accepted)}" if accepted else ""
            raise BKIncorrectParameterException(
                f"labkit does not support this value of {self.name}: {self.why}; remove the"
                f" key{alternative}"
            )


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """The keys that labkit obeys or rejects in one kind of configuration file."""

    obeyed: Mapping[str, tuple[Field[Any], Setting]]
    refused: Mapping[str, RefusedKey]

    def unused(self, properties: Mapping[str, str], *, bookie: bool = True) -> dict[str, str]:
        """Return the keys that have no effect, each mapped to the most similar known key, or to ""
        if no key is similar.

        With `bookie=False`, the result also includes keys that only a bookie rejects, because these
        keys have no effect elsewhere. Raises `BKIncorrectParameterException` if a key is rejected.
        """
        unused = {}
        for name, value in sorted(properties.items()):
            refused = self.refused.get(name)
            if not value or name in self.obeyed:
                continue
            if refused is None:
                similar = get_close_matches(
                    name, sorted((*self.obeyed, *self.refused)), 1, _MIN_SIMILARITY
                )
                unused[name] = similar[0] if similar else ""
            elif bookie or refused.by == REFUSED:
                refused.check(value)
            else:
                unused[name] = ""
        return unused

    def require_used(self, keys: Mapping[str, object]) -> None:
        """Raise `BKIncorrectParameterException` if a key is rejected or has no effect."""
        unused = self.unused({name: str(value) for name, value in keys.items()})
        for name, similar in unused.items():
            hint = f"; did you mean {similar}?" if similar else ""
            raise BKIncorrectParameterException(f"labkit does not use the key {name}{hint}")


def describe_unused(unused: Mapping[str, str]) -> str:
    """Return a line that lists the unused keys, likely misspellings first."""
    names = [f"{name} (did you mean {near}?)" for name, near in unused.items() if near]
    names += [name for name, near in unused.items() if not near]
    more = f" and {len(names) - _MAX_LISTED_KEYS} others" if len(names) > _MAX_LISTED_KEYS else ""
    return f"labkit does not use these keys: {', '.join(names[:_MAX_LISTED_KEYS])}{more}"


def obeyed_keys(kinds: Iterable[type]) -> Mapping[str, tuple[Field[Any], Setting]]:
    return {key: found for kind in kinds for key, found in settings_by_key(kind).items()}


def refused_keys(table: str) -> Iterator[RefusedKey]:
    """Read a table of rejected keys from this directory.

    The table is tab-separated, with one key per line.
    """
    text = files("labkit.worlds.live.config").joinpath(table).read_text(encoding="utf-8")
    for line in text.splitlines():
        name, by, accepted, why = line.split("\t")
        yield RefusedKey(name, by, tuple(accepted.split("|")), why)
