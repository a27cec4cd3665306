"""An invalid scenario is rejected on creation, with a message that says what is valid."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import pytest

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import (
    BitRot,
    ClockSkew,
    Crash,
    FailingRead,
    Fault,
    FullAtSync,
    Leave,
    Loss,
    Partition,
    Pause,
    Reformatted,
    ReplacedDisks,
    Reset,
    SessionLoss,
    SlowDisk,
    Unload,
)
from labkit.worlds.sim.scenario.scenario import Scenario, from_json
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, At, Moment, On
from labkit.worlds.sim.workload.consume import Consume
from labkit.worlds.sim.workload.produce import Produce
from labkit.worlds.sim.workload.publish import Publish
from labkit.worlds.sim.workload.steps import NameRacks, Read, Write


def anything(value: object) -> Any:
    """Return the value untyped, because a notebook does not check types."""
    return value


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Publish(batch_size=0), "batch_size must be a number from 1 to 1,000,000, got 0"),
        (lambda: Publish(window=0), "window must be a number from 1 to 1,000,000, got 0"),
        (lambda: Produce(batch_size=0), "batch_size must be a number from 1 to 1,000,000, got 0"),
        (lambda: Write(entries=-1), "entries must be a number from 0 to 1,000,000, got -1"),
        (lambda: Write(ensemble=10**12), "ensemble must be a number from 1 to 1,000, got 10000000"),
        (lambda: Write(client=""), "client must be a non-empty string, got ''"),
        (lambda: Write(every_ms=nan), "every_ms must be a number, got nan"),
        (lambda: Read(when=anything(5)), "when must be At(...) or On(...), got 5"),
        (lambda: Crash("b0", disk="gone"), "disk must be one of kept, lost, torn, lot, got 'gone'"),
        (lambda: Crash("b0", when=anything(5)), "when must be At(...) or On(...), got 5"),
        (lambda: BitRot("b0", "logs"), "must be one of journal, entry log, index, got 'logs'"),
        (lambda: ReplacedDisks("b0", "journals"), "must be one of all, journal, ledgers, got 'jo"),
        (lambda: Publish(keys=-1), "keys must be a number from 0 to 1,000,000, got -1"),
        (lambda: Write(racks=-1), "racks must be a number from 0 to 1,000,000, got -1"),
        (lambda: NameRacks(0), "racks must be at least 1, got 0"),
        (lambda: BitRot("b0", part=7.0), "part must be a number from 0 to 1, got 7.0"),
        (lambda: BitRot("b0", size=0), "size must be a number from 1 to 1,000,000, got 0"),
        (lambda: Partition(("b0",), direction="inn"), "must be one of both, out, in, got 'inn'"),
        (lambda: Partition(anything("b0")), "side must be a tuple or a list, got 'b0'"),
        (lambda: Loss(share=1.5), "share must be a number from 0 to 1, got 1.5"),
        (lambda: ClockSkew("b0", 0.0), "rate must be a number from 0.001 to 1,000, got 0.0"),
        (lambda: ClockSkew("b0", -1.0), "rate must be a number from 0.001 to 1,000, got -1.0"),
        (lambda: At(-5), "ms must be a number from 0 to 1,000,000,000,000, got -5"),
        (lambda: At(inf), "ms must be a number, got inf"),
        (lambda: On("lac.advance"), "kind must be a kind of event, such as lac.advanced"),
        (lambda: On(anything(5)), "kind must be a string, got 5"),
        (lambda: On("lac.advanced", 0), "nth must be a number from 1 to 1,000,000,000, got 0"),
        (lambda: Cluster(anything("3")), "bookies must be an integer, got '3'"),
        (lambda: Cluster(anything(2.5)), "bookies must be an integer, got 2.5"),
        (lambda: Cluster(storage=anything(5)), "storage must be StorageConfig(...), got 5"),
        (lambda: Cluster(gc_wait_time_ms=10**9), "shorter than gc_wait_time_ms"),
        (lambda: Scenario(seed=anything("x")), "seed must be an integer or None, got 'x'"),
        (lambda: Scenario(late_share=5.0), "late_share must be a number from 0 to 1, got 5.0"),
        (lambda: Scenario(limit_s=nan), "limit_s must be a number, got nan"),
        (lambda: Scenario(variant=anything([])), "variant must be a string, got []"),
        (lambda: Scenario(workload=anything(Write())), "workload must be a tuple or a list, got W"),
        (lambda: Scenario(workload=(anything(Crash("b0")),)), "such as Write()"),
        (lambda: Scenario(workload=(Publish(),)), "add one with Cluster(brokers=1)"),
        (lambda: Scenario(workload=(Consume(),)), "Consume() needs a broker"),
        (lambda: Scenario(workload=(Write(), Write(client="v"))), "written by only one step"),
        (lambda: Scenario(workload=(Write(client="b0"),)), "'b0' is reserved"),
        (lambda: Scenario(variant="unheard of"), "unknown variant 'unheard of'"),
        (lambda: Scenario(faults=(Leave("broker0"),)), "the cluster has none"),
        (lambda: Cluster(bookies=0), "bookies must be a number from 1 to 1,000, got 0"),
    ],
)
def test_a_value_out_of_its_range_is_refused_with_what_is_possible(
    make: Callable[[], object], words: str
) -> None:
    with pytest.raises(BKIncorrectParameterException) as caught:
        make()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Crash("zk"), "cannot hit 'zk'; valid targets: b0, b1, broker0, w"),
        (Crash("*"), "cannot hit '*'"),
        (Pause("zk", 10.0), "cannot hit 'zk'"),
        (SessionLoss("*"), "cannot hit '*'"),
        (SlowDisk("broker0"), "cannot hit 'broker0'; valid targets: b0, b1"),
        (BitRot("w"), "cannot hit 'w'"),
        (SlowDisk("w"), "cannot hit 'w'"),
        (FailingRead("w"), "cannot hit 'w'; valid targets: b0, b1"),
        (FullAtSync("broker0"), "cannot hit 'broker0'; valid targets: b0, b1"),
        (ReplacedDisks("w"), "cannot hit 'w'; valid targets: b0, b1"),
        (Reformatted("w"), "cannot hit 'w'; valid targets: b0, b1"),
        (Leave("b0"), "cannot hit 'b0'; valid targets: broker0"),
        (Unload("b0"), "cannot hit 'b0'; valid targets: broker0"),
        (Reset("b0", "*"), "cannot hit '*'; valid targets: b0, b1, broker0, w, zk"),
        (Partition(("b0", "b7")), "cannot hit 'b7'"),
        (Loss("b0", "b7"), "cannot hit 'b7'; valid targets: b0, b1, broker0, w, zk, *"),
        (Crash("b0", when=On("add.sent", node="b7")), "waits for an event on 'b7'"),
        (anything(Crash), "such as Crash"),
        (anything(Write(1)), "such as Crash"),
    ],
)
def test_a_fault_that_cannot_strike_is_refused_with_the_nodes_that_it_can_strike(
    fault: Fault, words: str
) -> None:
    with pytest.raises(BKIncorrectParameterException) as caught:
        Scenario(Cluster(2, brokers=1), faults=(fault,))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "delay w>b0",
            "dely w>b0 1",
            "delay w 1",
            "lose w>b0 x",
            "lose w>b0 -1",
            "next",
            "next x",
        ),
        *("delay w>b0 01", "disk 3", " delay w>b0 1", "delay w>b0 1 ", "", 5),
    ],
)
def test_a_decision_whose_name_has_another_form_is_refused(name: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match="not the name of a decision"):
        Scenario().with_decision(name, 1.0)


@pytest.mark.parametrize("value", [nan, inf, -1.0, "x", None])
def test_a_decision_is_a_number_from_0(value: float) -> None:
    with pytest.raises(BKIncorrectParameterException, match="must be a number from 0"):
        Scenario().with_decision("delay w>b0 1", value)


def test_a_decision_may_have_a_name_that_the_run_does_not_have() -> None:
    scenario = Scenario().with_decision("lose w>b9 1", 1)
    assert run(scenario).events == run(Scenario()).events


def test_a_list_of_steps_is_kept_as_a_tuple() -> None:
    scenario = Scenario(workload=anything([Write()]), faults=anything([Crash("b0")]))
    assert scenario == Scenario(faults=(Crash("b0"),))
    assert hash(scenario)


@dataclass(frozen=True, slots=True, repr=False)
class Nothing(Value):
    """A fault defined in a notebook, with an annotation that cannot be resolved here."""

    made_by: "NoSuchThing"  # type: ignore[name-defined] # noqa: F821
    when: Moment = START

    def strike(self, world: object) -> None:
        pass


def test_a_notebook_may_define_faults() -> None:
    assert run(Scenario(faults=(anything(Nothing)(5),))).events == run(Scenario()).events


@pytest.mark.parametrize(
    "text",
    [
        *("[1]", '{"Crash": {"node": "b1"}}', '{"Scenario": {"sed": 1}}'),
        *("", "{", "null", "[" * 100_000, '{"a":' * 900 + "1" + "}" * 900, "1" * 5000),
        '{"Scenario": {"workload": ["x"]}}',
        '{"Scenario": {"workload": [{"Crash": {"node": "b0"}}]}}',
        '{"Scenario": {"workload": [{"Write": {"ledger": {"a": 1, "b": 2}}}]}}',
        '{"Scenario": {"cluster": 5}}',
        '{"Scenario": {"cluster": {"Cluster": {"bookies": 100000000}}}}',
        '{"Scenario": {"cluster": {"Cluster": {"broker": {"BrokerConfig": {"max": 1}}}}}}',
        '{"Scenario": {"cluster": {"Cluster": {"storage": {"StorageConfig": '
        '{"entry_log_per_ledger_enabled": "no"}}}}}}',
        '{"Scenario": {"faults": [5]}}',
        '{"Scenario": {"faults": [{"_LinkShare": {}}]}}',
        '{"Scenario": {"faults": [{"BookieFault": {"node": "b0"}}]}}',
        '{"Scenario": {"decisions": 5}}',
        '{"Scenario": {"decisions": {"Crash": {"node": "b0"}}}}',
        '{"Scenario": {"seed": 1e999}}',
        '{"Scenario": {"limit_s": "a"}}',
    ],
)
def test_a_text_that_is_not_a_scenario_is_refused(text: str) -> None:
    with pytest.raises(BKIncorrectParameterException):
        from_json(text)


@pytest.mark.parametrize(("fault", "node"), [("burn", "b0"), ("kill", "zk"), ("kill", "b7")])
def test_a_fork_refuses_faults_and_nodes_that_are_not_there(fault: str, node: str) -> None:
    trace = run(Scenario())
    with pytest.raises(BKIncorrectParameterException):
        trace.fork(50, fault, node)
