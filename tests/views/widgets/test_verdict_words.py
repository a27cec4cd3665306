from labkit.system.check.judge import CHECKS
from labkit.views.widgets.verdict_words import FAILURES, failure_of


def test_every_check_has_a_description_of_its_failure() -> None:
    assert {check.__name__ for check in CHECKS} == set(FAILURES)


def test_the_name_of_an_unknown_check_is_split_into_words() -> None:
    assert failure_of("ReadersAgreeTwice") == "broken: readers agree twice"
