"""From where to where each lane is read: options `start` and `end` as places.

Of a topic, each partition may have an id of its own; of ledgers, one id counts for all of them.
"""

from collections.abc import Iterable

from labkit.model.message_id import MessageId
from labkit.spark.bookkeeper.options import Bound, OptionError, Options
from labkit.spark.bookkeeper.spans import (
    EARLIEST,
    LATEST,
    Place,
    beginning_at,
    beginning_behind,
    ending_with,
)


def places(options: Options, lanes: Iterable[int]) -> dict[int, tuple[Place, Place]]:
    """First and last place of each lane.  Raises `OptionError` for an id of no lane, and where
    a lane ends before it begins.
    """
    lanes = list(lanes)
    if options.start == "latest":
        raise OptionError(
            "option 'start' is 'latest': nothing is behind that, but for a stream; write 'earliest'"
            " or a MessageId"
        )
    starts = ids_by_lane("start", options.start, options, lanes)
    ends = ids_by_lane("end", options.end, options, lanes)
    for lane, start in starts.items():
        if lane in ends and beginning_at(start) >= beginning_behind(ends[lane]):
            raise OptionError(f"option 'start': {start} is behind option 'end': {ends[lane]}")
    return {
        lane: (
            beginning_at(starts[lane]) if lane in starts else EARLIEST,
            ending_with(ends[lane]) if lane in ends else LATEST,
        )
        for lane in lanes
    }


def ids_by_lane(
    name: str, bound: Bound, options: Options, lanes: Iterable[int]
) -> dict[int, MessageId]:
    """The ids of an option, by lane.  Raises `OptionError` for an id of no lane."""
    lanes = list(lanes)
    if isinstance(bound, str):
        return {}
    if not options.topic:
        return dict.fromkeys(lanes, bound[0])
    for message_id in bound:
        if message_id.partition not in lanes:
            raise OptionError(
                f"option '{name}': {message_id} is of partition {message_id.partition}; topic"
                f" {options.topic} has {_partitions(lanes)}"
            )
    return {message_id.partition: message_id for message_id in bound}


def _partitions(lanes: list[int]) -> str:
    return "none, write -1" if lanes == [-1] else f"0 to {lanes[-1]}"
