"""Which keys of a configuration file labkit obeys and which it refuses.

    obeyed                labkit does what the key says: it is the key of a field of some settings
                          (`labkit.system.model.settings`)
    refused               the key changes what is stored or where, what is durable, or who may
                          connect, in a way that labkit does not support: only values that
                          describe what labkit does anyway are accepted (tables beside this file)
    refused by a bookie   the same for a bookie; a separate autorecovery process ignores the key

All other keys have no effect: most of them tune or observe Java's implementation.  A server names
them in one line, because one of them may be misspelt.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.model.settings import settings_by_key

REFUSED, BY_A_BOOKIE = "refused", "refused by a bookie"

_SIMILAR = 0.88
"""How similar (0 to 1) a key must be to a known one to be taken for a misspelling of it."""
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class RefusedKey:
    """A key that labkit refuses, or a bookie does (`by`), unless its value is an accepted one."""

    name: str
    by: str
    accepted: tuple[str, ...]
    why: str

    def check(self, value: str) -> None:
        """Raises `BKIncorrectParameterException` for a value that is not accepted.

        The error does not show the value, which may be a password.
        """
        if value.lower() not in (known.lower() for known in self.accepted):
            accepted = [known for known in self.accepted if known]
            instead = f", or set it to {' or '.join(accepted)}" if accepted else ""
            raise BKIncorrectParameterException(
                f"{self.name} asks for something that labkit does not do: {self.why}; remove"
                f" it{instead}"
            )


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """The keys of one kind of configuration file that labkit obeys or refuses."""

    obeyed: frozenset[str]
    refused: Mapping[str, RefusedKey]

    def unused(self, properties: Mapping[str, str], *, bookie: bool = True) -> dict[str, str]:
        """Return the keys that have no effect, each with the key that may be meant, or "".

        A `bookie` also refuses what an autorecovery process ignores.  Raises
        `BKIncorrectParameterException` naming a key that is refused.
        """
        unused = {}
        for name, value in sorted(properties.items()):
            refused = self.refused.get(name)
            if not value or name in self.obeyed:
                continue
            if refused is None:
                similar = get_close_matches(
                    name, sorted((*self.obeyed, *self.refused)), 1, _SIMILAR
                )
                unused[name] = similar[0] if similar else ""
            elif bookie or refused.by == REFUSED:
                refused.check(value)
            else:
                unused[name] = ""
        return unused

    def require_used(self, keys: Mapping[str, object]) -> None:
        """Raise `BKIncorrectParameterException` for a key that is refused or has no effect."""
        unused = self.unused({name: str(value) for name, value in keys.items()})
        for name, similar in unused.items():
            hint = f"; did you mean {similar}?" if similar else ""
            raise BKIncorrectParameterException(f"labkit does not use the key {name}{hint}")


def describe_unused(unused: Mapping[str, str]) -> str:
    """The line that names unused keys: first those that may be misspelt; "" if there are none."""
    if not unused:
        return ""
    names = [f"{name} (did you mean {near}?)" for name, near in unused.items() if near]
    names += [name for name, near in unused.items() if not near]
    more = f" and {len(names) - _MOST_NAMED} others" if len(names) > _MOST_NAMED else ""
    return f"labkit does not use these keys: {', '.join(names[:_MOST_NAMED])}{more}"


def obeyed_keys(kinds: Iterable[type]) -> frozenset[str]:
    """The keys of all fields of these settings."""
    return frozenset(key for kind in kinds for key in settings_by_key(kind))


def refused_keys(table: str) -> Iterator[RefusedKey]:
    """Read a table beside this module: one key on each line, in columns separated by tabs."""
    text = files("labkit.worlds.live.config").joinpath(table).read_text(encoding="utf-8")
    for line in text.splitlines():
        name, by, accepted, why = line.split("\t")
        yield RefusedKey(name, by, tuple(accepted.split("|")), why)
