"""The same scenario always gives the same run.

This holds in another process, with another hash seed, and in another Python version. A run with a
seed is also identical to a run with the decisions drawn from that seed.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from labkit.worlds.sim.run import run
from tests.programs import output_of
from tests.repeat import repeated
from tests.worlds.sim.digests import scenarios

ROOT = Path(__file__).parents[3]
OTHERS = ("3.11", "3.12", "3.13", "3.14")
NEEDED = ("protobuf", "google-crc32c")


def digests(python: str, hash_seed: int, count: int) -> list[str]:
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    command = python, "-m", "tests.worlds.sim.digests", count
    return output_of(*command, folder=ROOT, env=environment).split()


@pytest.mark.slow
@pytest.mark.parametrize("count", repeated([40, 200]))
def test_two_processes_with_different_hash_seeds_run_seeds_alike(count: int) -> None:
    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(lambda seed: digests(sys.executable, seed, count), (1, 2))
    assert one == other
    assert len(set(one)) == count


def other_pythons() -> list[str]:
    """Return interpreters of other minor Python versions on this machine.

    Looks on the PATH, among pyenv's versions, and in the list LABKIT_OTHER_PYTHON.
    """
    named = os.environ.get("LABKIT_OTHER_PYTHON", "").split(os.pathsep)
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    names = (*filter(None, named), *(f"python{v}" for v in OTHERS if v != own))
    versions = (Path.home() / ".pyenv" / "versions").glob("3.1*/bin/python")
    found = [shutil.which(name) for name in names] + sorted(map(str, versions))
    return [python for python in found if python and version_of(python) not in ("", own)]


def version_of(python: str) -> str:
    """Return the major and minor version, or "" if the interpreter does not run or is too old."""
    code = "import sys; print('%d.%d' % sys.version_info[:2] * (sys.version_info >= (3, 11)))"
    done = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def environment_of(python: str, folder: Path) -> str:
    """Create an environment with the packages that the simulation needs; return its Python."""
    there = folder / "bin" / "python"
    if not there.exists():
        subprocess.run([python, "-m", "venv", str(folder)], check=True, capture_output=True)
    pip = [str(there), "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), *NEEDED]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.skip(f"cannot install {NEEDED} for {python}: {done.stderr[-300:]}")
    return str(there)


@pytest.mark.long
def test_other_versions_of_python_run_seeds_alike(kept: pytest.Cache) -> None:
    by_version = {version_of(python): python for python in other_pythons()}
    if not by_version:
        pytest.skip("no other minor version of Python found; set LABKIT_OTHER_PYTHON")
    expected = digests(sys.executable, 1, 50)
    for version, python in sorted(by_version.items()):
        folder = kept.mkdir(f"python-{version}")
        assert digests(environment_of(python, folder), 2, 50) == expected, version


@pytest.mark.parametrize("seed", range(5))
def test_the_decisions_of_a_run_give_it_again_without_a_seed(seed: int) -> None:
    trace = run(scenarios(seed + 1)[seed])
    explicit = trace.explicit()
    assert trace.decisions
    assert explicit.seed is None
    again = run(explicit)
    assert again.events == trace.events
    assert again.digest == trace.digest


def test_taking_one_decision_back_shifts_no_other() -> None:
    trace = run(scenarios(1)[0])
    last = list(trace.decisions)[-1]
    calmer = run(trace.scenario.with_decision(last, 0))
    expected = {name: value for name, value in trace.decisions.items() if name != last}
    common = calmer.decisions.keys() & expected.keys()
    assert last not in calmer.decisions
    assert {name: calmer.decisions[name] for name in common} == {
        name: expected[name] for name in common
    }


@pytest.mark.asyncio
async def test_inside_an_event_loop_a_run_is_a_plain_call_too() -> None:
    scenario = scenarios(1)[0]
    assert run(scenario).digest == (await asyncio.to_thread(run, scenario)).digest
