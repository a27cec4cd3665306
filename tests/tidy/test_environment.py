"""Tests that pip, conda and Binder install the same packages, as declared in pyproject.toml."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHON = SpecifierSet(PROJECT["requires-python"])


def requirements() -> list[Requirement]:
    """Return all dependencies in pyproject.toml, including those of the extras."""
    extras = PROJECT["optional-dependencies"].values()
    return [Requirement(line) for line in sum(extras, PROJECT["dependencies"])]


def pins() -> dict[str, str]:
    """Return the version of each package that constraints.txt pins for this Python."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = [Requirement(line) for line in lines if not line.lstrip().startswith("#")]
    return {
        pin.name: str(pin.specifier).removeprefix("==")
        for pin in pinned
        if pin.marker is None or pin.marker.evaluate()
    }


@pytest.fixture(scope="module")
def dockerfile() -> str:
    """Return the Dockerfile that Binder would build; this needs no container engine."""
    run = subprocess.run(
        [sys.executable, "-m", "repo2docker", "--no-build", "--debug", "."],
        cwd=ROOT,
        env={**os.environ, "DOCKER_HOST": "unix:///nowhere"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("requirement", requirements(), ids=lambda each: each.name)
def test_every_dependency_is_pinned_to_a_version_it_allows(requirement: Requirement) -> None:
    version = pins().get(requirement.name)
    assert version, f"{requirement.name} is not in constraints.txt: run `make constraints`"
    assert requirement.specifier.contains(version, prereleases=True)


def test_every_pin_is_a_plain_name_and_version() -> None:
    pattern = re.compile(r"(#.*|[a-z0-9-]+==[^\s;]+( ; .+)?)$")
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not pattern.match(line)] == []


def test_conda_installs_what_pyproject_says() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert environment["name"] == PROJECT["name"]
    assert environment["dependencies"] == [
        f"python{PYTHON}",
        "pip",
        {"pip": ["-c constraints.txt", "-e ."]},
    ]


def test_binder_installs_what_pyproject_says() -> None:
    lines = (ROOT / "binder/requirements.txt").read_text().splitlines()
    assert lines == ["-c ../constraints.txt", "-e ."]
    runtime = (ROOT / "binder/runtime.txt").read_text().strip()
    assert runtime.removeprefix("python-") in PYTHON


@pytest.mark.slow
def test_binder_uses_the_python_of_runtime_txt(dockerfile: str) -> None:
    runtime = (ROOT / "binder/runtime.txt").read_text().strip()
    # The names of repo2docker's locked conda environments contain the Python version; the
    # Dockerfile encodes dots and dashes in them as hexadecimal numbers.
    assert f"environment-2epy-2d{runtime.removeprefix('python-').replace('.', '-2e')}" in dockerfile


@pytest.mark.slow
def test_binder_installs_labkit_after_its_source_is_there(dockerfile: str) -> None:
    user = f"{os.getuid()}:{os.getgid()}"
    copy = dockerfile.index(f"COPY --chown={user} src/ ${{REPO_DIR}}/")
    install = dockerfile.index('pip install --no-cache-dir -r "binder/requirements.txt"')
    assert copy < install


def test_binder_takes_nothing_from_the_root(dockerfile: str) -> None:
    assert "src/environment.yml" not in dockerfile
    assert "env update" not in dockerfile
    assert dockerfile.count("pip install") == 1
