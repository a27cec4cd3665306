from unittest.mock import patch

import pytest

from labkit.views.widgets import SpaceTime, Stripes
from labkit.views.widgets.scene_view import SceneView
from labkit.worlds.sim import run_link
from tests.views.widgets.films import crashed


@pytest.mark.parametrize("make", [Stripes, lambda: SpaceTime(crashed())])
@pytest.mark.parametrize("execution", ["autograde", "validate"])
def test_under_nbgrader_a_view_is_only_its_still_picture(
    make: type[SceneView], execution: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interactive = make()
    assert "application/vnd.jupyter.widget-view+json" in interactive._repr_mimebundle_()[0]
    monkeypatch.setenv("NBGRADER_EXECUTION", execution)
    view = make()
    data, _ = view._repr_mimebundle_()
    assert data == {"text/plain": repr(view), "text/html": interactive.image()}
    assert view.comm is None
    # The view still handles messages, although no browser shows the change.
    view.received(None, {}, [])
    assert view.notice


def test_the_still_picture_of_a_published_project_leads_to_the_page_that_plays_it() -> None:
    view = SpaceTime(crashed())
    assert view.image().startswith("<img ")
    with patch.object(run_link, "run_page", return_value="https://example.org/run.html"):
        assert view.image().startswith('<a href="https://example.org/run.html#')
        assert Stripes().image().startswith("<img ")
