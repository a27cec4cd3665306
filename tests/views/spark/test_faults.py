import pytest

from labkit.views.spark.faults import plant_faults
from tests.views.spark.streams_by_hand import make_stream

NO_FAULTS = {"swaps": 0, "redeliveries": 0, "lost_entries": 0}


def test_no_faults_leave_the_stream_as_it_is() -> None:
    stream = make_stream(3)
    assert plant_faults(stream, **NO_FAULTS, seed=1) == stream


def test_same_seed_plants_the_same_faults() -> None:
    stream = make_stream(3)
    faults = {"swaps": 4, "redeliveries": 4, "lost_entries": 4}
    assert plant_faults(stream, **faults, seed=1) == plant_faults(stream, **faults, seed=1)
    assert plant_faults(stream, **faults, seed=1) != plant_faults(stream, **faults, seed=2)


def test_arrivals_are_counted_again() -> None:
    faulty = plant_faults(make_stream(3), swaps=2, redeliveries=3, lost_entries=4, seed=1)
    assert faulty["seq"].to_pylist() == list(range(faulty.num_rows))


@pytest.mark.parametrize("fault", sorted(NO_FAULTS))
@pytest.mark.parametrize("count", [-1, 100_000])
def test_impossible_number_of_faults_is_refused(fault: str, count: int) -> None:
    with pytest.raises(ValueError, match="must be between 0 and"):
        plant_faults(make_stream(3), **{**NO_FAULTS, fault: count}, seed=1)
