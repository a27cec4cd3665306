"""Tests that `make check` also checks JavaScript, using only tools installed on the machine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DENO = Path(sys.executable).with_name("deno")

CLEAN = "/** @param {number} number */\nexport const twice = (number) => 2 * number;\n"
MISTAKES = {
    "fmt --check": "export const twice=(number)=>2*number\n",
    "lint": "export function read(value) {\n  debugger;\n  return value;\n}\n",
    "check": 'export const size = "word".lenght;\n',
    "check ": "export const twice = (number) => 2 * number;\n",
}
"""The last two break different rules: an undefined name, and a parameter without a type."""


def deno(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run deno in the folder with the project's rules and without access to the network."""
    if not DENO.exists():
        assert not os.environ.get("CI"), "CI must check JavaScript: deno is not installed"
        pytest.skip("deno has no wheel for this machine")
    nowhere = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    options = [
        *command.split(),
        *(["labkit/views/widgets/browser/*.js"] if "check" in command.split() else []),
    ]
    return subprocess.run(
        [DENO, *options],
        cwd=folder,
        env={**os.environ, **nowhere, "DENO_DIR": str(folder / "deno"), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def project(folder: Path, source: str) -> Path:
    """Create a project with this project's rules and one JavaScript module; return its folder."""
    shutil.copy(ROOT / "deno.json", folder)
    module = folder / "labkit" / "views" / "widgets" / "browser" / "module.js"
    module.parent.mkdir(parents=True)
    module.write_text(source)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_in_javascript_is_found_without_a_network(command: str, tmp_path: Path) -> None:
    found = deno(project(tmp_path, MISTAKES[command]), command)
    assert found.returncode != 0, found.stdout


@pytest.mark.slow
@pytest.mark.parametrize("command", MISTAKES)
def test_clean_javascript_passes(command: str, tmp_path: Path) -> None:
    passed = deno(project(tmp_path, CLEAN), command)
    assert passed.returncode == 0, passed.stderr


@pytest.mark.parametrize("ci", [False, True])
def test_a_check_without_deno_says_so_and_fails_in_ci(ci: bool, tmp_path: Path) -> None:
    lines = (ROOT / "Makefile").read_text().splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith("DENO :="))
    makefile = tmp_path / "Makefile"
    recipe = lines[begin : begin + 4]
    makefile.write_text(
        "\n".join(["BIN := .", "VENV := .", *recipe, "all:", "\t@$(call javascript,lint)", ""])
    )
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    run = subprocess.run(
        ["make", "-f", makefile, "all"],
        cwd=tmp_path,
        env=environment | ({"CI": "true"} if ci else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "JavaScript is not checked" in run.stdout + run.stderr
    assert (run.returncode != 0) == ci
