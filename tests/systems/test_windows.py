"""On Windows, simulations work without POSIX, and features that need POSIX say so."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.course.lessons.build import SOURCES, parse
from tests.programs import output_of
from tests.systems.on_system import ROOT, python_on

pytestmark = pytest.mark.slow

POSIX_ONLY = {
    "labkit/course/grading/isolation/channel.py",
    "labkit/course/grading/isolation/submission_process.py",
    "labkit/course/grading/processes.py",
    "labkit/course/grading/isolation/sandbox.py",
    "labkit/course/grading/submissions.py",
    "labkit/worlds/live/processes/cluster.py",
    "labkit/worlds/live/disk.py",
    "labkit/worlds/live/host/file_system.py",
    "labkit/worlds/live/host/guard.py",
    "labkit/worlds/live/processes/node_process.py",
    "labkit/worlds/live/host/posix.py",
    "labkit/worlds/live/host/regular_files.py",
    "labkit/worlds/live/host/stop_signal.py",
    "labkit/views/shell/folders.py",
    "labkit/views/spark/worker_daemon.py",
}
"""Modules that start servers, fork processes, run untrusted code, or inspect files."""
ASKS_FIRST = {
    "labkit/course/checking/forked_check.py",
    "labkit/course/checking/check.py",
    "labkit/worlds/live/zookeeper/store.py",
}
"""Modules that do without a system call if the system lacks it."""

EVERY_MODULE = """
import pkgutil, sys, labkit
for module in pkgutil.walk_packages(labkit.__path__, "labkit."):
    if not module.name.startswith("labkit.__main__"):
        __import__(module.name)
print(sys.platform, len(sys.modules))
"""

VERBS = """
import sys
from labkit.cli.main import main
for verb in sys.argv[1:]:
    print(main(verb.split()))
"""

REFUSED = """
import sys
from pathlib import Path
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.live.disk import RealDisk
from labkit.system.model.missing_part import MissingPart
from labkit.views.spark.session import spark_session
for refuses in (LocalCluster, lambda: RealDisk(Path("x")), lambda: spark_session("x")):
    try:
        refuses()
    except MissingPart as missing:
        print(missing)
"""

SECRETS = """
import os
from labkit.worlds.live.zookeeper.secret import SECRET_VARIABLE, sasl_options
print(sasl_options("host:2181"))
os.environ[SECRET_VARIABLE] = "sesame"
print(sasl_options("host:2181")["password"])
"""

LESSONS = [source.stem[:2] for source in sorted(SOURCES.glob("[0-9][0-9]_*.py"))]
SIMULATED = [number for number in LESSONS if number not in ("11", "12", "13")]
QUICK = ("05",)


def test_every_module_can_be_imported() -> None:
    run = python_on("windows", "-c", EVERY_MODULE)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("win32 ")


def test_only_what_runs_servers_uses_names_that_windows_lacks() -> None:
    # Skip other packages: checking them is not needed and would take half of the time.
    packages = ("--follow-imports", "skip")
    command = ("-m", "mypy", "--platform", "win32", "labkit", "--no-warn-unreachable", *packages)
    run = subprocess.run(
        [sys.executable, *command, "--cache-dir", ".mypy_cache/windows"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in run.stdout.splitlines() if line.endswith("[attr-defined]")]
    assert lines, run.stdout + run.stderr
    assert {line.partition(":")[0] for line in lines} <= POSIX_ONLY | ASKS_FIRST


def test_doctor_is_content_and_says_what_does_not_run() -> None:
    run = python_on("windows", "-m", "labkit", "doctor")
    assert (run.returncode, run.stderr) == (0, "")
    first, *rest = run.stdout.splitlines()
    assert re.match("--    System .* this is Windows; use labkit in WSL, in Docker or in a", first)
    assert not any(re.search("Java|ZooKeeper|Spark|FAIL", line) for line in rest)


def test_a_verb_that_needs_posix_refuses_in_one_line() -> None:
    verbs = ("local", "bookie", "broker", "autorecovery", "shell lastmark")
    run = python_on("windows", "-c", VERBS, *verbs)
    assert run.stdout.split() == ["1"] * len(verbs)
    lines = run.stderr.splitlines()
    assert [line.partition(", but ")[0] for line in lines] == [
        f"labkit: System: `labkit {verb.split()[0]}` requires Linux or macOS" for verb in verbs
    ]


def test_what_needs_posix_refuses_from_python_too() -> None:
    run = python_on("windows", "-c", REFUSED)
    lines = run.stdout.splitlines()
    assert [line.partition(" requires ")[0] for line in lines] == [
        "System: a cluster of processes",
        "System: a bookie",
        "System: Spark in a local JVM",
    ], run.stderr


def test_the_secret_of_a_named_zookeeper_comes_from_the_environment() -> None:
    run = python_on("windows", "-c", SECRETS)
    assert run.stdout.split() == ["None", "sesame"], run.stderr


@pytest.mark.long
def test_the_simulated_world_runs_as_elsewhere() -> None:
    program = ("-m", "tests.worlds.sim.digests", "20")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    here = output_of(sys.executable, *program, folder=ROOT, env=env)
    there = python_on("windows", *program)
    assert there.returncode == 0, there.stderr
    assert there.stdout.split() == here.split()


def check_count(number: str) -> int:
    """Return how many cells of the lesson's solution end with a call of `check`."""
    [source] = SOURCES.glob(f"{number}_*.py")
    cells = parse(source.read_text(encoding="utf-8"), "lesson", "solution").cells
    code = [ast.parse(cell.source).body for cell in cells if cell.cell_type == "code"]
    last = [ast.unparse(body[-1]) for body in code if body]
    return sum(each.startswith("check(") for each in last)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, marks=() if number in QUICK else pytest.mark.long)
        for number in SIMULATED
    ],
)
def test_a_simulated_lesson_runs_and_its_exercises_pass(number: str, tmp_path: Path) -> None:
    # A lesson may write mybookie.py or myclient.py into the current folder.
    lesson = str(ROOT / "tests/systems/run_lesson.py")
    run = python_on("windows", lesson, number, folder=tmp_path)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    cards = [line.split() for line in run.stderr.splitlines() if line.startswith("card ")]
    assert len(cards) == check_count(number)
    assert all(passed == str(tag != "refused") for _, tag, passed in cards)
