"""Storage and the simulated world need nothing that Python in a browser lacks.

The views and lessons need only the dependencies that labkit declares for the browser.
"""

import ast
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from labkit.course.lessons.build import SOURCES
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.workload.steps import Recover, Write
from tests.programs import output_of

ROOT = Path(__file__).parents[3]
SCENARIO = Scenario(workload=(Write(entries=3), Recover()), seed=5)

PROGRAM = f"""
import sys
from importlib import import_module
from pkgutil import walk_packages

class Missing:
    def find_spec(self, name, path=None, target=None):
        # A browser has neither other wheels than protobuf's nor processes.
        top = name.partition(".")[0]
        allowed = top in sys.stdlib_module_names or top in ("labkit", "google")
        if not allowed or top == "_multiprocessing":
            raise ImportError(f"there is no {{name}} here")

sys.meta_path.insert(0, Missing())

import labkit.system.check, labkit.worlds.sim, labkit.system.storage

for package in (labkit.system.storage, labkit.worlds.sim, labkit.system.check):
    for module in walk_packages(package.__path__, package.__name__ + "."):
        import_module(module.name)

from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import from_json

print(run(from_json({SCENARIO.to_json()!r})).digest)
"""


def test_a_scenario_runs_the_same_with_protobuf_as_the_only_wheel() -> None:
    assert output_of(sys.executable, "-c", PROGRAM, folder=ROOT).strip() == run(SCENARIO).digest


def absent_in_a_browser() -> set[str]:
    """Return the modules of the dependencies that labkit does not need in a browser."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = map(Requirement, project["dependencies"])
    absent = {
        canonicalize_name(each.name)
        for each in needed
        if each.marker and not each.marker.evaluate({"sys_platform": "emscripten"})
    }
    return {
        module
        for module, distributions in packages_distributions().items()
        if absent & {canonicalize_name(name) for name in distributions}
    }


LESSONS = """
import sys
sys.modules |= dict.fromkeys({absent!r})  # importing one of them fails

import labkit.views.widgets
from labkit.course.lessons import {names}
from labkit.course.workshop import check, overview, your_bookie
from labkit.course.checking.exercise import find
from labkit.course.exercises import break_protocol, garbage, quorums
"""


@pytest.mark.slow
def test_pictures_and_lessons_need_only_what_labkit_depends_on_in_a_browser() -> None:
    absent = absent_in_a_browser()
    assert {"jupyterlab", "pandas", "pyarrow", "pyspark"} <= absent
    texts = [source.read_text(encoding="utf-8") for source in SOURCES.glob("[0-9][0-9]_*.py")]
    imports = (
        node
        for text in texts
        if "works in a browser tab" in text
        for node in ast.parse(text).body
        if isinstance(node, ast.ImportFrom) and node.module == "labkit.course.lessons"
    )
    names = sorted({alias.name for node in imports for alias in node.names})
    assert "crash_map" in names
    program = LESSONS.format(absent=absent, names=", ".join(names))
    output_of(sys.executable, "-c", program, folder=ROOT)
