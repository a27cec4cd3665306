from itertools import combinations, product

import pytest

from labkit.system.client.quorum import is_covered
from labkit.system.client.striping import write_set

SIZES = [(e, qw, qa) for e, qw, qa in product(range(1, 7), repeat=3) if e >= qw >= qa]


def hides_an_acked_entry(known: set[int], e: int, qw: int, qa: int) -> bool:
    """Return whether Qa bookies that are not in `known` can have acknowledged an entry."""
    return any(
        not known.intersection(acked)
        for first in range(e)
        for acked in combinations([(first + i) % e for i in range(qw)], qa)
    )


@pytest.mark.promise("Coverage follows BookKeeper's rule, compared with brute force")
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_covered_means_that_no_acked_entry_can_be_hidden(sizes: tuple[int, int, int]) -> None:
    places = range(sizes[0])
    for count in range(sizes[0] + 1):
        for known in map(set, combinations(places, count)):
            assert is_covered(known, *sizes) is not hides_an_acked_entry(known, *sizes), known


def test_stripe_of_a_late_entry_is_of_its_absolute_id() -> None:
    assert write_set(2**31 + 1, 3, 2) == ((2**31 + 1) % 3, (2**31 + 2) % 3)
