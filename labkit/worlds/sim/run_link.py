"""A link to a run or to a crash map. The link contains everything needed to repeat the run or the
map, and to show one of its moments.

    run.1.eNqrVkrJTC9K...Qx7cQ.57
    crash.1.eNqrVipOLs...AUZ1A.42

The first number is the version of the format. The last number is the `seq` of the last event shown,
or the number of the selected cell of the map. Between the two numbers is a `RunLink` or a
`CrashMapLink` as JSON, compressed with zlib and encoded in URL-safe base64.

On the site, the link is the fragment of a URL, and browsers do not send fragments to the server. A
link may come from a stranger, so `parse` limits its size, validates the scenario as `from_json`
does, and rejects scenarios and scripts that are much larger than labkit's own. Nothing in a link is
ever executed.
"""

import json
import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from typing import Any, ClassVar, Self

from labkit import __version__
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.bookie_script import (
    Add,
    Checkpoint,
    Collect,
    Commit,
    Fence,
    Restart,
    ScriptStep,
    SetExplicitLac,
)
from labkit.worlds.sim.settings.scenario_values import CLASSES, Value, from_data, to_data
from labkit.worlds.sim.settings.value_rules import check_fields
from labkit.worlds.sim.variants.storage_variants import DEFECTS
from labkit.worlds.sim.variants.variants import VARIANTS

MAX_LENGTH = 24_000
"""The maximum length of a link. Links to shrunk scenarios are a tenth as long."""
_MAX_JSON_BYTES = 64 * 1024
_MAX_SERVERS, _MAX_OPERATIONS, _MAX_PAYLOAD_BYTES = 50, 20_000, 16 * 1024 * 1024
_MAX_PAGE_BYTES, _MAX_NAME_LENGTH, _MAX_CODE_LENGTH = 64 * 1024, 100, 8000
_OPERATIONS = ("entries", "messages", "polls")
_MAX_STEPS, _MAX_ID, _MAX_DIRECTORIES = 100, 10_000, 4
_MAX_SCRIPT_BYTES = 2 * 1024 * 1024
_STEPS = (Add, Checkpoint, Collect, Commit, Fence, Restart, SetExplicitLac)
_STEPS_IN_FLUSH = (Add, Commit, Fence, SetExplicitLac)
_IDS = ("ledger_id", "entry_id", "last_add_confirmed")
_SHIPPED = frozenset(VARIANTS)
"""labkit's own variants. While an exercise runs a learner's code, `VARIANTS` contains an additional
variant.
"""


@dataclass(frozen=True, slots=True, repr=False)
class Selection(Value):
    """The reader's selections in a view. A view uses only the fields for which it has controls.

    promise: the name of the broken promise that the view marks.
    level: the level of a game, or 0.
    """

    ledger: int | None = None
    bookie: str = ""
    first_entry: int | None = None
    last_entry: int | None = None
    begin_ms: float | None = None
    end_ms: float | None = None
    follow: int = -1
    real_time: bool = False
    promise: str = ""
    event_node: str = ""
    event_kind: str = ""
    level: int = 0


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class _Link(Value):
    """Base class of links.

    kind: the first word of the link.
    content_name: a description of what the link contains, for error messages.
    classes: the classes whose instances the link may contain, by name.
    digest: the digest of the link's contents.
    code: the learner's code that the run used, as text that is never executed. "" if the link does
        not include this code, and None if only labkit's own code ran.
    """

    kind: ClassVar[str]
    content_name: ClassVar[str]
    classes: ClassVar[Mapping[str, type[Any]]]

    digest: str
    code: str | None = None
    at: int = -1

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a link, which is either the whole URL or only its fragment.

        Raises `BKIncorrectParameterException` if the link is not valid.
        """
        fragment = text.strip().rpartition("#")[2]
        if len(fragment) > MAX_LENGTH:
            raise _not_a_link(f"it is longer than {MAX_LENGTH:,} characters")
        found = re.fullmatch(rf"{cls.kind}\.1\.([\w-]+)\.(-1|\d{{1,9}})", fragment, re.ASCII)
        if found is None:
            raise _not_a_link(
                f"expected {cls.kind}.1., the content, a period and a number, without spaces"
                f" ({cls.kind}.2. and higher need a newer labkit)"
            )
        try:
            data = _with_decisions(json.loads(_decompress(found[1])), _named)
            value = from_data(data, cls.classes)
        except (ValueError, RecursionError, zlib.error) as error:
            raise _not_a_link(f"it is damaged or incomplete ({error})") from None
        if not isinstance(value, cls):
            raise _not_a_link(f"it contains something other than {cls.content_name}")
        return replace(value, at=int(found[2]))

    def content(self) -> str:
        """Return everything except `at`, as JSON."""
        data = _with_decisions(to_data(replace(self, at=-1)), _by_name)
        return json.dumps(data, separators=(",", ":"))

    def fragment(self) -> str:
        packed = zlib.compress(self.content().encode(), 9)
        return f"{self.kind}.1.{urlsafe_b64encode(packed).decode().rstrip('=')}.{self.at}"

    def __str__(self) -> str:
        """Return the URL, or only the fragment if labkit is not published.

        `labkit open` accepts both.
        """
        page = run_page()
        return f"{page}#{self.fragment()}" if page else self.fragment()

    def check_texts(self, *names: str) -> None:
        if not re.fullmatch("[0-9a-f]{32}", self.digest):
            raise _not_a_link("its digest is malformed")
        if max(map(len, names)) > _MAX_NAME_LENGTH:
            raise _not_a_link(f"its view or version is longer than {_MAX_NAME_LENGTH} characters")
        if len(self.code or "") > _MAX_CODE_LENGTH:
            raise _not_a_link(f"its code is longer than {_MAX_CODE_LENGTH:,} characters")


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class RunLink(_Link):
    """The contents of a link to a run.

    digest: the digest of the run's trace, or of the fork's trace if there is a fork.
    view, selection: the name of the view, and the selection in it.
    other: the scenario of a fork that the timeline shows next to the run, or None.
    version: the version of labkit that made the link.
    at: the `seq` of the last event shown, or -1 before the first. In a timeline with a fork, this
        is the number of the step.
    """

    kind = "run"
    content_name = "a run"
    classes = CLASSES

    # Keep the scenario and the fields that follow it at the end, because pages identify a run by
    # the fields before them.
    view: str
    selection: Selection = Selection()
    other: Scenario | None = None
    scenario: Scenario
    version: str = ""

    def __post_init__(self) -> None:

        check_fields(self)
        self.check_texts(self.view, self.version)
        for scenario in filter(None, (self.scenario, self.other)):
            _check_size(scenario)


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class CrashMapLink(_Link):
    """The contents of a link to a crash map.

    defect: the name of the bug in the store, or "" for labkit's own store.
    version: the version of labkit that made the link.
    at: the number of the selected cell, counted row by row.
    """

    kind = "crash"
    content_name = "a crash map"

    # Keep the script and the fields that follow it at the end, because pages identify a map by the
    # fields before them.
    defect: str = ""
    journal_count: int = 1
    ledger_dir_count: int = 1
    script: tuple[ScriptStep, ...]
    version: str = ""

    def __post_init__(self) -> None:

        check_fields(self)
        self.check_texts(self.version)
        if self.defect and self.defect not in DEFECTS:
            raise _not_a_link(f"unknown defect {self.defect!r}; valid defects: {list(DEFECTS)}")
        for count in (self.journal_count, self.ledger_dir_count):
            if not 1 <= count <= _MAX_DIRECTORIES:
                raise _not_a_link(f"its bookie has {count} directories of a kind, expected 1 to 4")
        _check_script(self.script)


CrashMapLink.classes = {each.__name__: each for each in (CrashMapLink, *_STEPS)}


def parse_link(text: str) -> RunLink | CrashMapLink:
    """Parse a link of either kind. Raises `BKIncorrectParameterException`."""
    is_map = text.strip().rpartition("#")[2].startswith(f"{CrashMapLink.kind}.")
    return CrashMapLink.parse(text) if is_map else RunLink.parse(text)


def link_to(scenario: Scenario, other: Scenario | None, code: str, **fields: Any) -> str:
    """Return the link with these fields, or "" if a link cannot describe the scenario, because it
    is too large, or because it has steps or faults that are not labkit's own.

    `code` is included only if the run used a learner's code.
    """
    return _text_of(
        RunLink,
        scenario=_with_shipped_variant(scenario),
        other=other and _with_shipped_variant(other),
        code=None if scenario.variant in _SHIPPED else code,
        **fields,
    )


def link_to_crash_map(defect: str | None, code: str, **fields: Any) -> str:
    """Return the link with these fields, or "" if the script is too large for a link or contains
    steps that are not labkit's own.

    defect: the name of the bug in the store, or None if the store used a learner's code.
    """
    code_used = code if defect is None else None
    return _text_of(CrashMapLink, defect=defect or "", code=code_used, **fields)


def _text_of(kind: Callable[..., _Link], **fields: Any) -> str:
    try:
        text = str(kind(version=__version__, **fields))
        parse_link(text)
    except (BKIncorrectParameterException, TypeError):
        return ""
    return text


def _with_shipped_variant(scenario: Scenario) -> Scenario:
    return scenario if scenario.variant in _SHIPPED else replace(scenario, variant="")


@cache
def run_page() -> str:
    try:
        urls = metadata.metadata("labkit").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return ""
    repository = next((url for url in urls if url.startswith("Repository, ")), "")
    return f"{site_of(repository.partition(', ')[2])}run.html" if repository else ""


def site_of(repository: str) -> str:
    """Return the address of the site, given `https://github.com/<owner>/<name>`."""
    owner, name = repository.rsplit("/", 2)[1:]
    return f"https://{owner.lower()}.github.io/{name}/"


def _with_decisions(link: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Change the decisions of each scenario in a link's JSON data. Plays are left unchanged,
    because their decisions are in the order of the player's moves.
    """
    for content in link.values() if isinstance(link, dict) else ():
        for name in ("scenario", "other") if isinstance(content, dict) else ():
            match content.get(name):
                case {"Scenario": {"decisions": dict(decisions)} as scenario}:
                    if not scenario.get("in_turn"):
                        scenario["decisions"] = change(decisions)
    return link


def _by_name(decisions: dict[str, float]) -> dict[str, list[float]]:
    """Return the decisions in the short form that is used in links: for each name, pairs of a
    number and a value.

    `{"delay w>b0 7": 3, "delay w>b0 9": 1}` becomes `{"delay w>b0": [7, 3, 2, 1]}`. Each number is
    relative to the previous one, because small numbers compress better.
    """
    numbered: dict[str, list[tuple[int, float]]] = {}
    for decision, value in decisions.items():
        name, _, digits = decision.rpartition(" ")
        numbered.setdefault(name, []).append((int(digits), value))
    found: dict[str, list[float]] = {}
    for name, pairs in numbered.items():
        before = 0
        for number, value in sorted(pairs):
            found.setdefault(name, []).extend((number - before, value))
            before = number
    return found


def _named(short: dict[str, Any]) -> dict[str, Any]:
    """Return the decisions whose short form, as returned by `_by_name`, is given.

    Raises `ValueError` if the form is invalid.
    """
    decisions = {}
    for name, pairs in short.items():
        if not isinstance(pairs, list) or len(pairs) % 2:
            raise ValueError(f"the decisions {name!r} are not pairs of numbers")
        number = 0
        for distance, value in zip(pairs[::2], pairs[1::2], strict=True):
            if type(distance) is not int:
                raise ValueError(f"the decisions {name!r} are not numbered")
            number += distance
            decisions[f"{name} {number}"] = value
    return decisions


def _decompress(text: str) -> str:
    packed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    inflate = zlib.decompressobj()
    data = inflate.decompress(packed, _MAX_JSON_BYTES)
    if not inflate.eof:
        raise ValueError(f"it does not end within {_MAX_JSON_BYTES:,} bytes")
    return data.decode("ascii")


def _check_size(scenario: Scenario) -> None:
    """Limit the cost of running a stranger's scenario, which is also limited by the step budget."""
    cluster, steps = scenario.cluster, scenario.workload
    counts = [max(getattr(step, each, 0) for each in _OPERATIONS) for step in steps]
    sizes = [getattr(step, "payload_size", 0) for step in steps]
    if (
        cluster.bookies + cluster.brokers > _MAX_SERVERS
        or sum(counts) > _MAX_OPERATIONS
        or sum(count * size for count, size in zip(counts, sizes, strict=True)) > _MAX_PAYLOAD_BYTES
        or cluster.storage.page_size > _MAX_PAGE_BYTES
    ):
        raise _not_a_link(
            f"its scenario has more than {_MAX_SERVERS} servers, {_MAX_OPERATIONS:,} entries or"
            f" {_MAX_PAYLOAD_BYTES:,} bytes, or index pages of more than {_MAX_PAGE_BYTES:,} bytes"
        )
    for text in _texts(to_data(scenario)):
        if len(text) > _MAX_NAME_LENGTH or not text.isprintable():
            raise _not_a_link("its scenario contains a name that is too long or not printable")


def _check_script(script: tuple[ScriptStep, ...]) -> None:
    """Limit the cost of computing a stranger's crash map."""
    in_flush = [each for step in script if isinstance(step, Checkpoint) for each in step.during]
    steps: list[Any] = [*script, *in_flush]
    if not (
        all(type(step) in _STEPS for step in script)
        and all(type(step) in _STEPS_IN_FLUSH for step in in_flush)
    ):
        raise _not_a_link("its script has a step that is not labkit's own")
    ids = [getattr(step, name) for step in steps for name in _IDS if hasattr(step, name)]
    ids += [each for step in script if isinstance(step, Collect) for each in step.deleted]
    sizes = [step.payload_size for step in steps if isinstance(step, Add)]
    if (
        len(steps) > _MAX_STEPS
        or not all(isinstance(each, int) and 0 <= each <= _MAX_ID for each in ids)
        or sum(sizes) > _MAX_SCRIPT_BYTES
    ):
        raise _not_a_link(
            f"its script has more than {_MAX_STEPS} steps or {_MAX_SCRIPT_BYTES:,} bytes, or ids"
            f" that are not between 0 and {_MAX_ID:,}"
        )


def _texts(data: object) -> list[str]:
    if isinstance(data, str):
        return [data]
    parts = [*data, *data.values()] if isinstance(data, dict) else data
    return [text for part in parts for text in _texts(part)] if isinstance(parts, list) else []


def _not_a_link(why: str) -> BKIncorrectParameterException:
    return BKIncorrectParameterException(f"not a valid link: {why}")
