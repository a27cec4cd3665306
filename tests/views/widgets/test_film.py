"""Tests that a film can be decoded into the scenes from which it was made."""

from labkit.views.widgets.cluster import ClusterView
from labkit.views.widgets.drawing.scene import Mark, group, picture, rect
from labkit.views.widgets.film import Beat, Film
from tests.views.widgets.films import crashed, grown, scenes_of
from tests.views.widgets.scripted import everything_at_once


def scene(*keys: str) -> Mark:
    return picture(100, 50, "x", group("all", *(rect(key, 1, 2, 3, 4) for key in keys)))


SCENES = [scene(*keys) for keys in ("abc", "abcd", "bcd", "bxd", "bxd", "dxb", "", "a")]


def filmed(scenes: list[Mark]) -> Film:
    film = Film()
    for at, each in enumerate(scenes):
        film.add(Beat(at, each))
    return film


def test_a_film_gives_each_scene_back() -> None:
    assert scenes_of(filmed(SCENES).whole()) == SCENES


def test_a_film_that_grew_is_the_whole() -> None:
    film = filmed(SCENES[:2])
    tables = film.whole()
    for at, each in enumerate(SCENES[2:], start=2):
        film.add(Beat(at, each))
        tables = grown(tables, film.growth())
    assert tables == film.whole()
    assert scenes_of(tables) == SCENES


def test_a_film_can_forget_its_beginning() -> None:
    film = filmed(SCENES)
    film.keep_last(3)
    assert scenes_of(film.whole()) == SCENES[-3:]


def test_what_did_not_change_is_not_sent_again() -> None:
    film = filmed([scene(*"abcdefgh")])
    film.whole()
    film.add(Beat(1, scene(*"abcdefgi")))
    growth = film.growth()
    assert [len(growth[name]) for name in ("pairs", "heads", "rows")] == [0, 1, 3]
    assert sum(map(len, growth["rows"])) < 16


def test_a_run_s_film_gives_back_the_picture_of_every_beat() -> None:
    view = ClusterView(crashed())
    assert scenes_of(view.film) == [beat.scene for beat in view.reel.beats]
    assert len(view.film["beats"]) > 100


def test_beats_come_in_the_order_of_their_positions() -> None:
    for view in (ClusterView(crashed()), ClusterView(everything_at_once())):
        positions = [beat.at for beat in view.reel.beats]
        assert positions == sorted(positions)
