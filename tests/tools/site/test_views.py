"""Tests how a lesson's outputs appear on a page: one format each, one placeholder per view."""

import json
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4.nbbase import new_code_cell, new_notebook, new_output

from labkit.views.widgets import ClusterView
from labkit.views.widgets.scene_view import SceneView
from labkit.views.widgets.stripes import Stripes
from labkit.worlds.sim.run import run
from tools.site.landing import SCENARIO
from tools.site.views import Views, for_a_page

VIEW = "application/vnd.jupyter.widget-view+json"
STATES = "application/vnd.jupyter.widget-state+json"
STATE = {
    "_esm": "export default { render };",
    "_css": ".a {}",
    "_dom_classes": [],
    "film": {"a": 1},
}


def notebook(*outputs: dict[str, object], **states: object) -> NotebookNode:
    shown = [new_output("display_data", data=data) for data in outputs]
    metadata = {"widgets": {STATES: {"state": {n: {"state": s} for n, s in states.items()}}}}
    return new_notebook(cells=[new_code_cell("", outputs=shown)], metadata=metadata)


def page_of(notebook: NotebookNode, folder: Path) -> list[dict[str, str]]:
    page = for_a_page(notebook, Views(folder))
    return [dict(output["data"]) for output in page.cells[0].outputs]


def test_a_view_has_a_place_with_its_picture_module_style_and_state(tmp_path: Path) -> None:
    output: dict[str, object] = {
        VIEW: {"model_id": "m"},
        "text/html": "<img alt='a picture'>",
        "text/plain": "words",
    }
    ((kind, html),) = page_of(notebook(output, m=STATE), tmp_path)[0].items()
    assert kind == "text/html"
    assert "<img alt='a picture'>" in html
    written = {file.suffix: file for file in tmp_path.iterdir()}
    assert all(file.name in html for file in written.values())
    assert written[".js"].read_text() == STATE["_esm"]
    assert json.loads(written[".json"].read_text()) == {"film": {"a": 1}}


def test_a_later_build_places_recorded_views_without_recording_them_again(tmp_path: Path) -> None:
    calls = []

    def record(views: Views) -> str:
        calls.append(views)
        return views.place(STATE, "a still picture")

    def build(name: str) -> tuple[str, dict[str, str]]:
        views = Views(tmp_path / name)
        html = views.recorded(tmp_path / "cache", record)
        return html, {file.name: file.read_text() for file in (tmp_path / name).iterdir()}

    assert build("first") == build("second")
    assert len(calls) == 1


def test_two_views_of_a_kind_share_their_module(tmp_path: Path) -> None:
    outputs: list[dict[str, object]] = [
        {VIEW: {"model_id": name}, "text/plain": name} for name in "ab"
    ]
    page_of(notebook(*outputs, a=STATE, b=STATE | {"film": {}}), tmp_path)
    assert sorted(file.suffix for file in tmp_path.iterdir()) == [".css", ".js", ".json", ".json"]


def test_a_widget_from_another_package_keeps_its_still_form(tmp_path: Path) -> None:
    output: dict[str, object] = {
        VIEW: {"model_id": "m"},
        "text/html": "<b>still</b>",
        "text/plain": "words",
    }
    assert page_of(notebook(output, m={"children": []}), tmp_path) == [
        {"text/html": "<b>still</b>"}
    ]


def test_a_chart_is_shown_as_its_picture(tmp_path: Path) -> None:
    output: dict[str, object] = {"application/vnd.plotly.v1+json": {}, "image/svg+xml": "<svg/>"}
    assert page_of(notebook(output), tmp_path) == [{"image/svg+xml": "<svg/>"}]


def state_on_page(view: SceneView, folder: Path) -> tuple[dict[str, Any], str]:
    """Return the state that the page's view receives, and the HTML around it."""
    output: dict[str, object] = {VIEW: {"model_id": "m"}, "text/plain": "words"}
    state = {"_esm": "", "_css": "", "film": view.film, "controls": view.controls}
    (page,) = page_of(notebook(output, m=json.loads(json.dumps(state))), folder)
    (written,) = folder.glob("*.json")
    return json.loads(written.read_text()), page["text/html"]


def acts_of(film: dict[str, Any]) -> set[str]:
    used = {number for numbers in film["attributes"] for number in numbers}
    return {
        value for n, (name, value) in enumerate(film["pairs"]) if name == "data-act" if n in used
    }


def test_a_page_has_no_control_that_only_python_answers_but_says_what_they_are_set_to(
    tmp_path: Path,
) -> None:
    view = Stripes(4, 3, 2)
    assert acts_of(view.film) == {"fail"}
    state, html = state_on_page(view, tmp_path)
    assert state["controls"] == []
    assert acts_of(state["film"]) == set()
    assert not any("click to" in words for words in state["film"]["words"])
    assert "Ensemble size E: 4 · Write quorum Qw: 3 · Ack quorum Qa: 2 · Entries: 8." in html


def test_a_page_hides_the_buttons_that_fork_a_run_and_keeps_those_of_the_picture(
    tmp_path: Path,
) -> None:
    view = ClusterView(run(SCENARIO))
    assert "kill" in acts_of(view.film)
    state, _ = state_on_page(view, tmp_path)
    assert "kill" not in acts_of(state["film"])
    hidden = state["film"]["pairs"].index(["display", "none"])
    assert [hidden] in state["film"]["attributes"]
    assert 'data-act="kill"' not in view.svg()


def test_code_that_is_folded_in_jupyterlab_is_folded_on_the_page(tmp_path: Path) -> None:
    cells = [
        new_code_cell("import a", metadata={"jupyter": {"source_hidden": True}, "tags": ["kept"]}),
        new_code_cell("a()", metadata={"jupyter": {"outputs_hidden": True}}),
    ]
    page = for_a_page(new_notebook(cells=cells), Views(tmp_path))
    assert [cell.metadata.get("tags") for cell in page.cells] == [["kept", "hide-input"], None]
