"""Tests the simulated world in a browser's Python (Pyodide, run by Node.js).

Pyodide is a 32-bit platform with a different C library, without threads or processes, and with an
event loop that is already running.
"""

import gzip
import io
import json
import shutil
import tarfile
from importlib.metadata import version
from pathlib import Path

import google.protobuf
import pytest

from labkit.shipped_files import shipped
from labkit.worlds.sim.run import run
from tests.programs import output_of
from tests.repeat import repeated
from tests.worlds.sim.digests import scenarios
from tools.site.distribution import ARCHIVE, distribution, imports_of
from tools.site.lessons import lessons
from tools.site.pyodide import CannotDownloadError
from tools.site.pyodide import pyodide as pyodide_core

ROOT = Path(__file__).parents[3]

STARTED = """
import json, random, sys
before = set(sys.modules)
for line in {imports!r}:
    exec(line, {{}})
new = sorted(set(sys.modules) - before)

import inspect, importlib.metadata, jedi, labkit.worlds.sim.run
completed = [each.name for each in jedi.Interpreter("x.app", [{{"x": []}}]).complete()]
source = inspect.getsource(labkit.worlds.sim.run.run)
found = importlib.metadata.version("labkit")
print(json.dumps([new, completed, source[:8], found, random.random()]))
"""


@pytest.fixture(scope="module")
def cache(kept: pytest.Cache) -> Path:
    """Return the directory in which downloads are kept for later runs."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("Node.js and npm are not on the PATH")
    return kept.mkdir("site")


@pytest.fixture(scope="module")
def pyodide(cache: Path) -> Path:
    """Return Pyodide's directory, downloading it once."""
    try:
        return pyodide_core(cache)
    except CannotDownloadError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def tab(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Assemble a browser's Python with labkit, as a browser tab loads it."""
    folder = tmp_path_factory.mktemp("tab")
    try:
        distribution(folder, cache, imports_of(each.path for each in lessons() if each.in_a_tab))
    except CannotDownloadError as error:
        pytest.skip(str(error))
    return folder


def run_in_node(program: str, *arguments: object) -> str:
    return output_of("node", Path(__file__).with_name(program), *arguments)


@pytest.mark.long
@pytest.mark.parametrize("count", [10, 40])
def test_a_browsers_python_gets_the_same_digest_for_a_seed(pyodide: Path, count: int) -> None:
    protobuf = Path(google.protobuf.__file__).parents[2]
    digests = run_in_node("in_pyodide.mjs", pyodide, ROOT, protobuf, count)
    assert digests.split() == [run(scenario).digest for scenario in scenarios(count)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "lesson",
    repeated(each.number for each in lessons() if each.in_a_tab),
)
def test_a_tabs_lesson_runs_complete_and_unchanged(tab: Path, lesson: str) -> None:
    folder = shipped("notebooks")
    learner, solution = folder.glob(f"{lesson}-*.ipynb"), folder.glob(f"solutions/{lesson}-*.ipynb")
    printed = run_in_node("notebook_in_pyodide.mjs", tab, *learner, *solution)
    results = [json.loads(line) for line in printed.splitlines()]
    assert [result["failed"] for result in results] == [[], []]
    assert min(result["cells"] for result in results) > 10


@pytest.mark.slow
def test_a_tabs_python_starts_with_the_lessons_imports_done_and_its_files_there(tab: Path) -> None:
    script = STARTED.format(imports=imports_of(each.path for each in lessons() if each.in_a_tab))
    runs = [json.loads(run_in_node("python_in_pyodide.mjs", tab, script)) for _ in range(2)]
    for new, completed, source, found, _ in runs:
        assert new == []
        assert completed == ["append"]
        assert source == "def run("
        assert found == version("labkit")
    assert runs[0][-1] != runs[1][-1], "every tab would generate the same random numbers"


@pytest.mark.slow
def test_what_a_tab_loads_says_nothing_of_who_built_it(tab: Path) -> None:
    with gzip.open(tab / ARCHIVE) as packed:
        content = packed.read()
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert {(each.uname, each.uid, each.mtime) for each in archive} == {("", 0, 0)}
    assert bytes(ROOT) not in content
