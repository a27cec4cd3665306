from xml.etree import ElementTree

from labkit.views.widgets.step_list import Step, Steps

LINE = Steps([Step("first"), Step("second", "two minutes", "a timer"), Step("third", "a crash")])


def test_words_tell_what_lies_between_two_steps() -> None:
    assert repr(LINE).splitlines() == [
        "first",
        "  two minutes, a timer",
        "second",
        "  a crash",
        "third",
    ]


def test_every_step_has_a_dot_and_its_words_are_in_the_frame() -> None:
    picture = ElementTree.fromstring(LINE.svg())
    height = float(picture.attrib["height"])
    dots = [e for e in picture.iter() if e.tag.endswith("circle")]
    texts = [e for e in picture.iter() if e.tag.endswith("text")]
    assert len(dots) == 3
    assert {"first", "second", "third", "two minutes", "a timer", "a crash"} <= {
        e.text for e in texts
    }
    assert all(0 < float(e.attrib["y"]) < height for e in texts)


def test_a_notebook_gets_it_as_an_image() -> None:
    assert LINE._repr_mimebundle_()["text/html"].startswith('<img alt="first')
