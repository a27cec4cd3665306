"""Tests that a link repeats a run, stays short, and that a stranger's link can do no harm."""

import json
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
from labkit.worlds.sim import run_link
from labkit.worlds.sim.explore.counterexamples import counterexample, kept
from labkit.worlds.sim.explore.search import search
from labkit.worlds.sim.explore.shrink import shrink
from labkit.worlds.sim.run import run
from labkit.worlds.sim.run_link import RunLink, Selection, site_of
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.variants.variants import VARIANTS, Variant
from labkit.worlds.sim.workload.steps import Write
from tests.repeat import repeated

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


def link_with(content: object, at: str = "5") -> str:
    packed = zlib.compress(json.dumps(content).encode())
    return f"run.1.{urlsafe_b64encode(packed).decode().rstrip('=')}.{at}"


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
@pytest.mark.parametrize("first", repeated([0, 100, 200, 300, 400]))
def test_a_link_to_a_shrunk_scenario_is_short(first: int) -> None:
    finding = search(range(first, first + 100), variant="ack after one bookie", jobs=1).first
    assert finding is not None
    shrunk = shrink(finding.scenario, finding.promise)
    assert 0 < len(run(shrunk.scenario).link(at=shrunk.verdict.seq)) <= LONGEST


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


GOOD = content_of(run(SMALL).link())


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
        (link_with(scenario_with(seed=None, decisions={"<i>": 1})), "not the name of a decision"),
        (link_with(scenario_with(variant="yours")), "unknown variant"),
    ],
)
def test_a_bad_link_is_rejected_with_the_reason(link: str, why: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match=why.replace(".", r"\.")):
        RunLink.parse(link)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda part: (
        st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3)
    ),
    max_leaves=5,
)
NODES = [
    *([], ["scenario"], ["scenario", "Scenario"], ["selection"], ["other"], ["at"], ["code"]),
    *(["scenario", "Scenario", name] for name in ("cluster", "workload", "faults", "decisions")),
    *(["scenario", "Scenario", "workload", 0], ["scenario", "Scenario", "workload", 0, "Write"]),
]


@given(st.sampled_from(NODES), JSON)
def test_whatever_replaces_a_part_of_a_link_is_accepted_or_rejected(
    path: list[Any], part: Any
) -> None:
    content = json.loads(json.dumps(GOOD))
    at, keys = content, ["RunLink", *path]
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = part
    with suppress(BKIncorrectParameterException):
        RunLink.parse(link_with(content))
