"""Tests how pytest distributes tests to workers, enforces markers and time limits, and retries."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_pytest(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:nbval"]
    return subprocess.run(
        [*command, *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_java_is_not_started_without_its_marker() -> None:
    with pytest.raises(RuntimeError, match=r"mark it with `pytest\.mark\.java`"):
        subprocess.run(["java", "-version"], check=False)


@pytest.mark.slow
def test_in_ci_a_test_that_failed_runs_once_more_alone(tmp_path: Path) -> None:
    unsteady = tmp_path / "test_unsteady.py"
    unsteady.write_text(
        "from pathlib import Path\n"
        "def test_fails_at_first():\n"
        "    mark = Path(__file__).with_name('mark')\n"
        "    was_there = mark.exists()\n"
        "    mark.touch()\n"
        "    assert was_there\n"
        "def test_fails_always():\n"
        "    assert not Path(__file__).with_name('broken').exists()\n"
    )
    first = run_pytest(tmp_path, "-p", "tests.once_more", unsteady.name)
    assert first.returncode == 0, first.stdout
    assert "once more, alone: 1 failed beside other tests" in first.stdout
    (tmp_path / "broken").touch()
    assert run_pytest(tmp_path, "-p", "tests.once_more", unsteady.name).returncode == 1


@pytest.mark.slow
def test_a_worker_that_crashes_fails_the_test_that_it_ran_and_loses_no_other(
    tmp_path: Path,
) -> None:
    (tmp_path / "conftest.py").write_text("from tests.plan import pytest_xdist_make_scheduler\n")
    (tmp_path / "test_crash.py").write_text(
        "import os\n"
        "def test_before(): pass\n"
        "def test_crash(): os._exit(1)\n"
        "def test_after(): pass\n"
    )
    for name in ("b", "d"):
        (tmp_path / f"test_{name}.py").write_text(
            "".join(f"def test_{number}(): pass\n" for number in range(4))
        )
    ended = run_pytest(tmp_path, "-n", "2")
    assert "1 failed, 10 passed" in ended.stdout
    assert "crashed while running 'test_crash.py::test_crash'" in ended.stdout


@pytest.mark.slow
def test_of_a_sampled_table_one_row_is_chosen_and_the_others_are_further(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 600\n")
    (tmp_path / "conftest.py").write_text("from tests.plan import pytest_collection_modifyitems\n")
    (tmp_path / "test_table.py").write_text(
        "import pytest\n"
        "@pytest.mark.sampled\n"
        "@pytest.mark.parametrize('row', 'abc')\n"
        "def test_row(row): pass\n"
    )
    chosen = {
        expression: run_pytest(tmp_path, "--collect-only", "-m", expression).stdout
        for expression in ("further", "not further")
    }
    assert "test_row[a]" in chosen["not further"]
    assert "1/3 tests collected" in chosen["not further"]
    assert "2/3 tests collected" in chosen["further"]
