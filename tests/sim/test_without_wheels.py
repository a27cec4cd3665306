"""Storage and the simulated world need nothing that a Python in a browser does not have."""

import subprocess
import sys
from pathlib import Path

from labkit.sim.run import run
from labkit.sim.scenario import Scenario
from labkit.sim.workload import Recover, Write

ROOT = Path(__file__).parents[2]
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

import labkit.check, labkit.sim, labkit.storage

for package in (labkit.storage, labkit.sim, labkit.check):
    for module in walk_packages(package.__path__, package.__name__ + "."):
        import_module(module.name)

from labkit.sim.run import run
from labkit.sim.scenario import from_json

print(run(from_json({SCENARIO.to_json()!r})).digest)
"""


def test_a_scenario_runs_the_same_where_there_is_no_wheel_but_protobuf() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == run(SCENARIO).digest
