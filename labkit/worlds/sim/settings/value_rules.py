"""Checks the fields of scenario values. The error for an invalid field describes the valid values.

The type of a field is determined by its annotation, and its limits are determined by its name:
fields with the same name have the same limits everywhere. If no rule exists for a field's
annotation, any value is valid.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from math import inf
from reprlib import Repr
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.trace.kinds import KINDS

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def check_fields(value: Any) -> None:
    """Check the fields of a dataclass. If a field requires a tuple, convert a list to a tuple.

    Raises `BKIncorrectParameterException` with a message that contains the field's name, its value
    and the valid values.
    """
    cls = type(value)
    if cls not in _RULES:
        _RULES[cls] = _rules_of(cls)
    for name, default, rule in _RULES[cls]:
        part = getattr(value, name)
        # Skip default values for speed: a search creates millions of scenarios, and most of their
        # fields have default values.
        if part is default:
            continue
        if not rule.allows(part):
            raise BKIncorrectParameterException(
                f"{cls.__name__}: {name} must be {rule.describe(part)}, got {_SHORT.repr(part)}"
            )
        if type(part) is list:
            object.__setattr__(value, name, tuple(part))


class Rule(NamedTuple):
    """A rule for a field.

    `allows` returns whether a value is valid. `describe` takes an invalid value and describes the
    valid values.
    """

    allows: Callable[[Any], bool]
    describe: Callable[[Any], str]


_RULES: dict[type[Any], tuple[tuple[str, Any, Rule], ...]] = {}


def _rules_of(cls: type[Any]) -> tuple[tuple[str, Any, Rule], ...]:
    """Return the name, the default value and the rule of each field that has a rule."""
    try:
        hints = get_type_hints(cls)
    except NameError:
        # The annotations of a class that is defined in a notebook may use names that exist only
        # there.
        return ()
    found = []
    for field in fields(cls):
        rule = _of_type(hints[field.name])
        if field.name in LIMITS:
            rule = _both(rule, LIMITS[field.name])
        if rule is not _ANY:
            found.append((field.name, field.default, rule))
    return tuple(found)


# Types

_ANY = Rule(lambda _: True, lambda _: "anything")
_BUILT_IN: Mapping[Any, Rule] = {
    bool: Rule(lambda value: isinstance(value, bool), lambda _: "True or False"),
    int: Rule(lambda value: isinstance(value, int), lambda _: "an integer"),
    float: Rule(
        lambda value: isinstance(value, (int, float)) and -inf < value < inf, lambda _: "a number"
    ),
    str: Rule(lambda value: isinstance(value, str), lambda _: "a string"),
    NoneType: Rule(lambda value: value is None, lambda _: "None"),
}


def _of_type(hint: Any) -> Rule:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _any_of([_of_type(each) for each in arguments])
    if origin is tuple:
        return Rule(lambda value: isinstance(value, (tuple, list)), lambda _: "a tuple or a list")
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return Rule(lambda value: isinstance(value, Mapping), lambda _: "a dictionary")
    if isinstance(hint, type) and is_dataclass(hint):
        return Rule(lambda value: isinstance(value, hint), lambda _: f"{hint.__name__}(...)")
    return _BUILT_IN.get(hint, _ANY)


def _any_of(rules: list[Rule]) -> Rule:
    return Rule(
        lambda value: any(rule.allows(value) for rule in rules),
        lambda value: " or ".join(rule.describe(value) for rule in rules),
    )


def _both(rule: Rule, limit: Rule) -> Rule:
    return Rule(
        lambda value: rule.allows(value) and limit.allows(value),
        lambda value: (limit if rule.allows(value) else rule).describe(value),
    )


# Limits


def _between(lowest: float, highest: float) -> Rule:
    """Return a rule for a range that includes both ends. NaN is outside every range."""
    description = f"a number from {lowest:,} to {highest:,}"
    return Rule(lambda value: lowest <= value <= highest, lambda _: description)


def _one_of(*names: str) -> Rule:
    return Rule(lambda value: value in names, lambda _: f"one of {', '.join(names)}")


def _describe_kinds(kind: str) -> str:
    close = get_close_matches(kind, KINDS) or ("lac.advanced", "add.sent")
    return f"a kind of event, such as {', '.join(close)} (see labkit.system.trace.kinds)"


_MAX_MS = 10**12
"""About 31 years. The simulation's clock, a float, is precise to a microsecond up to this time."""
_TIME, _INTERVAL = _between(0, _MAX_MS), _between(1, _MAX_MS)
_COUNT, _FROM_ONE = _between(0, 10**6), _between(1, 10**6)
_SHARE, _SERVERS = _between(0, 1), _between(1, 1000)
_NAME = Rule(bool, lambda _: "a non-empty string")

LIMITS: Mapping[str, Rule] = {
    **dict.fromkeys(("ms", "for_ms", "down_ms", "extra_ms", "every_ms", "pause_ms"), _TIME),
    **dict.fromkeys(("quorum_timeout_ms", "explicit_lac_ms", "long_poll_ms"), _TIME),
    **dict.fromkeys(("lag_ms", "poll_ms", "gc_overreplicated_ledger_wait_time_ms"), _TIME),
    **dict.fromkeys(("flush_interval_ms", "gc_wait_time_ms", "session_timeout_ms"), _INTERVAL),
    **dict.fromkeys(("limit_s", "major_compaction_interval_s"), _between(0, _MAX_MS // 1000)),
    **dict.fromkeys(("entries", "messages", "polls"), _COUNT),
    **dict.fromkeys(("window", "batch_size", "entries_per_ledger", "size"), _FROM_ONE),
    **dict.fromkeys(("permits", "ack_every"), _FROM_ONE),
    **dict.fromkeys(("entries_per_connection", "force_every"), _COUNT),
    **dict.fromkeys(("redeliver_every", "start_over_after", "keys", "racks"), _COUNT),
    "start_over_by": _one_of("seek", "unsubscribe"),
    "lac": _one_of("read", "try", "explicit"),
    "max_allowed_ensemble_changes": _between(0, 2**31 - 1),
    "consumers": _between(1, 100),
    "subscription_type": _one_of("Exclusive", "Failover", "Shared", "Key_Shared"),
    **dict.fromkeys(("bookies", "ensemble", "write_quorum", "ack_quorum"), _SERVERS),
    **dict.fromkeys(("share", "late_share", "slow_share", "expired_share", "part"), _SHARE),
    **dict.fromkeys(("client", "topic", "subscription"), _NAME),
    "brokers": _between(0, 100),
    **dict.fromkeys(("ledger_directories", "journal_directories"), _between(1, 100)),
    "payload_size": _between(0, 100_000_000),
    "ledger": _between(0, 10**9),
    "nth": _between(1, 10**9),
    "entry": _between(-1, 10**9),
    "rate": _between(0.001, 1000),
    "offset_ms": _between(-_MAX_MS, _MAX_MS),
    "disk": _one_of("kept", "lost", "torn", "lot"),
    "file": _one_of("journal", "entry log", "index"),
    "which": _one_of("all", "journal", "ledgers"),
    "direction": _one_of("both", "out", "in"),
    "kind": Rule(KINDS.__contains__, _describe_kinds),
}
