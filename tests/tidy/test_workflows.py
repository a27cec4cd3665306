"""Tests that the GitHub workflows are well-formed and use commands of the current version."""

import argparse
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.search.__main__ import main

FOLDER = Path(__file__).parents[2] / ".github" / "workflows"


def workflow(name: str) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return found


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in workflow(name)["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yml")), ids=lambda path: path.name)
def test_each_step_of_a_workflow_does_something(path: Path) -> None:
    assert workflow(path.name)["name"] == path.stem
    assert all(("run" in step) != ("uses" in step) for step in steps(path.name))


def test_the_nightly_search_keeps_the_folder_in_which_it_searches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[argparse.Namespace] = []

    def search(arguments: argparse.Namespace) -> bool:
        asked.append(arguments)
        return False

    monkeypatch.setattr("tools.search.__main__.run_search", search)
    (command,) = [
        step["run"] for step in steps("search.yml") if "tools.search" in step.get("run", "")
    ]
    assert main(shlex.split(command.replace("$MINUTES", "240"))[3:]) == 1
    kept = {
        step["with"]["path"]: step.get("if")
        for step in steps("search.yml")
        if "cache/save" in step.get("uses", "") or "upload-artifact" in step.get("uses", "")
    }
    assert kept == {str(asked[0].folder): "always()"}
    assert asked[0].minutes < workflow("search.yml")["jobs"]["search"]["timeout-minutes"]
