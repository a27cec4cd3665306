"""Tests that a link repeats a run, stays short, and that a stranger's link can do no harm."""

import json
import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.storage.store import LedgerStore
from labkit.worlds.sim import run_link
from labkit.worlds.sim.crash_map.crash_map import VARIANTS as COLUMNS
from labkit.worlds.sim.crash_map.crash_map import crash_map
from labkit.worlds.sim.explore.counterexamples import counterexample, kept
from labkit.worlds.sim.explore.scenarios.random_topic_scenarios import random_topic_scenario
from labkit.worlds.sim.explore.search import scenario_of
from labkit.worlds.sim.explore.shrink import shrink
from labkit.worlds.sim.run import run
from labkit.worlds.sim.run_link import CrashMapLink, RunLink, Selection, parse_link, site_of
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.bookie_script import CONFIG, Add, Commit, ScriptedBookie
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.variants.storage_variants import DEFECTS
from labkit.worlds.sim.variants.variants import VARIANTS, Variant
from labkit.worlds.sim.workload.steps import Write
from tests.repeat import repeated
from tests.worlds.sim.scripts import ADD_INSIDE_FLUSH, COMPACTION, ONE_CHECKPOINT, TWO_LEDGERS

LONGEST = 2000
SMALL = Scenario(Cluster(bookies=3), (Write(entries=2),), seed=3)
EVERYTHING: dict[str, Any] = {
    "ledger": 0,
    "bookie": "b1",
    "first_entry": 1,
    "begin_ms": 0.5,
    "real_time": True,
}


def content_of(link: str) -> Any:
    packed = link.split(".")[-2]
    return json.loads(zlib.decompress(urlsafe_b64decode(packed + "=" * (-len(packed) % 4))))


def link_with(content: object, at: str = "5", kind: str = "run") -> str:
    packed = zlib.compress(json.dumps(content).encode())
    return f"{kind}.1.{urlsafe_b64encode(packed).decode().rstrip('=')}.{at}"


@pytest.mark.promise(
    "A link repeats the run that it was made from, and is at most 2,000 characters"
)
@pytest.mark.parametrize("variant", kept())
def test_a_link_to_a_counterexample_is_short_and_repeats_its_run(variant: str) -> None:
    trace = run(counterexample(variant))
    text = trace.link("SpaceTime", EVERYTHING, at=7)
    link = RunLink.parse(text)
    assert len(text) <= LONGEST
    assert run(link.scenario).digest == trace.digest == link.digest
    assert (link.view, link.selection, link.at) == ("SpaceTime", Selection(**EVERYTHING), 7)


@pytest.mark.slow
@pytest.mark.parametrize("first", repeated(range(0, 200, 20)))
def test_links_to_shrunk_drawn_scenarios_are_short(first: int) -> None:
    lengths = {}
    for seed in range(first, first + 20):
        for variant in (
            "recovery without fencing",
            "fence not persisted",
            "pushed taken for stored",
        ):
            with suppress(LookupError):  # This scenario keeps its promises.
                shrunk = shrink(scenario_of(seed, variant))
                lengths[variant, seed] = len(run(shrunk.scenario).link(at=shrunk.verdict.seq))
    assert lengths
    assert max(lengths.values()) <= LONGEST, max(lengths, key=lengths.__getitem__)


def test_a_link_keeps_every_decision_of_both_scenarios_in_few_characters() -> None:
    trace = run(random_topic_scenario(3))
    explicit = trace.explicit()
    link = RunLink.parse(run(explicit).link(fork=trace))
    assert (link.scenario, link.other) == (explicit, trace.scenario)
    few = replace(explicit, decisions={})
    assert len(explicit.decisions) > 100
    length = len(run(explicit).link()) - len(run(few).link())
    assert length < 8 * len(explicit.decisions)


def test_a_link_with_a_fork_has_both_scenarios_and_the_digest_of_the_fork() -> None:
    trace = run(SMALL)
    fork = trace.fork(20, "kill", "b1")
    link = RunLink.parse(trace.link(fork=fork))
    assert (link.scenario, link.other, link.digest) == (SMALL, fork.scenario, fork.digest)


def test_a_learners_code_is_in_a_link_only_if_asked_for_and_never_in_other_links() -> None:
    yours = Variant("yours", "with the learner's code")
    with patch.dict(VARIANTS, {"yours": yours}):
        trace = run(replace(SMALL, variant="yours"))
    without, included = RunLink.parse(trace.link()), RunLink.parse(trace.link(code="def f(): ..."))
    assert (without.scenario, without.code) == (SMALL, "")
    assert included.code == "def f(): ..."
    assert RunLink.parse(run(SMALL).link(code="def f(): ...")).code is None


def test_a_run_with_steps_that_are_not_labkits_own_has_no_link() -> None:
    @dataclass(frozen=True)
    class Wait:
        client: str = "w"

        async def run(self, node: object) -> None:
            """Do nothing."""

        @property
        def when(self) -> object:
            return SMALL.workload[0].when

    step: Any = Wait()
    assert run(replace(SMALL, workload=(*SMALL.workload, step))).link() == ""


def test_a_published_project_has_links_to_its_site() -> None:
    page = site_of("https://github.com/Someone/labkit") + "run.html"
    assert page == "https://someone.github.io/labkit/run.html"
    with patch.object(run_link, "run_page", return_value=page):
        text = run(SMALL).link(at=3)
    assert text.startswith(f"{page}#run.1.")
    assert RunLink.parse(f" {text}\n").at == 3


@pytest.mark.promise(
    "A link repeats the crash map that it was made from, and is at most 2,000 characters"
)
@pytest.mark.parametrize(
    ("script", "defect", "directories"),
    [
        (ADD_INSIDE_FLUSH, "mark taken after the flush", 1),
        (TWO_LEDGERS, "mark of one directory", 2),
        (COMPACTION, "", 1),
    ],
)
def test_a_link_to_a_crash_map_is_short_and_repeats_the_map(
    script: Any, defect: str, directories: int
) -> None:
    factory = DEFECTS[defect].store_factory if defect else LedgerStore
    text = crash_map(script, store_factory=factory, ledger_dir_count=directories).link(at=13)
    link = parse_link(text)
    assert isinstance(link, CrashMapLink)
    assert len(text) <= LONGEST
    assert (link.script, link.defect, link.at, link.code) == (script, defect, 13, None)
    again = crash_map(link.script, store_factory=factory, ledger_dir_count=link.ledger_dir_count)
    assert link.digest == again.digest


def test_different_crash_maps_have_different_digests() -> None:
    late = DEFECTS["mark taken after the flush"].store_factory
    maps = [crash_map(ADD_INSIDE_FLUSH), crash_map(ADD_INSIDE_FLUSH, store_factory=late)]
    assert len({each.digest for each in [*maps, crash_map(ONE_CHECKPOINT)]}) == 3


def test_the_link_to_a_crash_map_of_a_learners_store_has_the_code_only_if_asked_for() -> None:
    class Learners(LedgerStore):
        pass

    crashes = crash_map(ONE_CHECKPOINT, store_factory=Learners)
    assert CrashMapLink.parse(crashes.link()).code == ""
    assert CrashMapLink.parse(crashes.link(code="class Learners")).code == "class Learners"
    assert CrashMapLink.parse(crash_map(ONE_CHECKPOINT).link(code="class Learners")).code is None


def test_a_crash_map_that_a_link_cannot_describe_has_none() -> None:
    @dataclass(frozen=True)
    class Wait:
        def run(self, bookie: ScriptedBookie) -> None:
            """Do nothing."""

    script = (Add(5, 0), Commit())
    assert crash_map(script).link()
    assert crash_map((*script, Wait())).link() == ""
    assert crash_map(script, COLUMNS[:2]).link() == ""
    assert crash_map(script, config=replace(CONFIG, page_size=8)).link() == ""


GOOD = content_of(run(SMALL).link())
GOOD_MAP = content_of(crash_map(ADD_INSIDE_FLUSH).link())


def map_with(**fields: object) -> str:
    return link_with({"CrashMapLink": GOOD_MAP["CrashMapLink"] | fields}, kind="crash")


def script_of(*steps: object) -> str:
    return map_with(script=list(steps))


ADD = {"Add": {"ledger_id": 5, "entry_id": 0}}


def changed(**fields: object) -> object:
    return {"RunLink": GOOD["RunLink"] | fields}


def scenario_with(**fields: object) -> object:
    return changed(scenario={"Scenario": GOOD["RunLink"]["scenario"]["Scenario"] | fields})


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("", "expected run.1."),
        ("<script>", "expected run.1."),
        ("run.2.abc.1", "need a newer labkit"),
        ("run.1.abc.1", "damaged or incomplete"),
        ("run.1." + "a" * 30_000 + ".1", "longer than 24,000 characters"),
        (link_with("a" * 10_000_000), "does not end within 65,536 bytes"),
        (link_with(["x"]), "something other than a run"),
        (link_with(GOOD["RunLink"]["scenario"]), "something other than a run"),
        (link_with({"Popen": {"args": "ls"}}), "unknown class 'Popen'"),
        (link_with(changed(digest="<b>")), "digest is malformed"),
        (link_with(changed(selection={"Selection": {"ledger": "all"}})), "ledger must be"),
        (link_with(changed(code="x" * 8001)), "code is longer than 8,000"),
        (link_with(changed(view="x" * 101)), "view or version is longer than 100"),
        (link_with(scenario_with(cluster={"Cluster": {"bookies": 51}})), "more than 50 servers"),
        (link_with(scenario_with(workload=[{"Write": {"entries": 20_001}}])), "20,000 entries"),
        (
            link_with(scenario_with(workload=[{"Write": {"payload_size": 100_000_000}}])),
            "16,777,216 bytes",
        ),
        (link_with(scenario_with(workload=[{"Write": {"client": "a\x1b[2J"}}])), "not printable"),
        (link_with(scenario_with(workload=[{"Write": {"client": "a" * 101}}])), "too long"),
        (link_with(scenario_with(seed=None, decisions={"<i>": [1, 1]})), "not the name"),
        (link_with(scenario_with(decisions={"delay w>b0": [-1, 1]})), "not the name"),
        (link_with(scenario_with(decisions={"delay w>b0": [1, -1]})), "from 0 (harmless)"),
        (link_with(scenario_with(decisions={"delay w>b0": [1]})), "not pairs of numbers"),
        (link_with(scenario_with(decisions={"delay w>b0 1": 1})), "not pairs of numbers"),
        (link_with(scenario_with(decisions={"delay w>b0": [True, 1]})), "not numbered"),
        (link_with(scenario_with(variant="yours")), "unknown variant"),
        ("crash.2.abc.1", "need a newer labkit"),
        ("crash.1.abc.1", "damaged or incomplete"),
        (link_with(GOOD, kind="crash"), "unknown class 'RunLink'"),
        (link_with(GOOD_MAP), "unknown class 'Add'"),
        (link_with(ADD, kind="crash"), "something other than a crash map"),
        (map_with(digest="<b>"), "digest is malformed"),
        (map_with(version="x" * 101), "version is longer than 100"),
        (map_with(code="x" * 8001), "code is longer than 8,000"),
        (map_with(defect="yours"), "unknown defect 'yours'"),
        (map_with(journal_count=5), "5 directories"),
        (map_with(ledger_dir_count="1"), "ledger_dir_count must be an integer"),
        (script_of({"Crash": {"node": "b0"}}), "unknown class 'Crash'"),
        (script_of("add"), "a step that is not labkit's own"),
        (script_of({"Checkpoint": {"during": [{"Checkpoint": {}}]}}), "not labkit's own"),
        (script_of({"Checkpoint": {"during": "add"}}), "during must be a tuple"),
        (script_of(*[ADD] * 101), "more than 100 steps"),
        (script_of({"Checkpoint": {"during": [ADD] * 100}}), "more than 100 steps"),
        (script_of({"Add": {"ledger_id": 5, "entry_id": 10_001}}), "between 0 and 10,000"),
        (script_of({"Fence": {"ledger_id": -1}}), "between 0 and 10,000"),
        (script_of({"Collect": {"deleted": ["5"]}}), "between 0 and 10,000"),
        (script_of({"Add": ADD["Add"] | {"payload_size": 3_000_000}}), "2,097,152 bytes"),
        (script_of({"Add": ADD["Add"] | {"payload_size": -1}}), "payload_size must be"),
        (script_of({"Add": {"ledger_id": 5}}), "entry_id"),
    ],
)
def test_a_bad_link_is_rejected_with_the_reason(link: str, why: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match=re.escape(why)):
        parse_link(link)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda part: (
        st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3)
    ),
    max_leaves=5,
)
MAP_NODES = [
    *([], ["script"], ["defect"], ["code"], ["at"], ["journal_count"]),
    *(["script", 0], ["script", 0, "Add"], ["script", 0, "Add", "entry_id"]),
    *(["script", 2, "Checkpoint"], ["script", 2, "Checkpoint", "during"]),
]
NODES = [
    *([], ["scenario"], ["scenario", "Scenario"], ["selection"], ["other"], ["at"], ["code"]),
    *(["scenario", "Scenario", name] for name in ("cluster", "workload", "faults", "decisions")),
    *(["scenario", "Scenario", "workload", 0], ["scenario", "Scenario", "workload", 0, "Write"]),
]


def with_part(content: Any, keys: list[Any], part: Any) -> Any:
    """Return a copy of the content in which `part` replaces the value at the path given by these
    keys.
    """
    changed = json.loads(json.dumps(content))
    at = changed
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = part
    return changed


@pytest.mark.parametrize(
    ("kind", "content", "paths"),
    [(RunLink, GOOD, NODES), (CrashMapLink, GOOD_MAP, MAP_NODES)],
    ids=["run", "crash map"],
)
@given(st.data())
def test_whatever_replaces_a_part_of_a_link_is_accepted_or_rejected(
    kind: type[RunLink | CrashMapLink], content: Any, paths: list[Any], data: st.DataObject
) -> None:
    path, part = data.draw(st.sampled_from(paths)), data.draw(JSON)
    changed = with_part(content, [kind.__name__, *path], part)
    with suppress(BKIncorrectParameterException):
        kind.parse(link_with(changed, kind=kind.kind))
