"""Tests that the charts show the same numbers as the tables that the jobs return."""

import pandas as pd

from labkit.views.spark import charts, trace_charts


def test_copies_of_all_workers_add_up_over_time() -> None:
    made = pd.DataFrame(
        {
            "bucket_start_ms": [1_000, 1_000, 1_300],
            "worker": ["a", "b", "a"],
            "copies": [3, 1, 2],
        }
    )
    marks = pd.DataFrame({"seq": [1, 9], "time_us": [1_000_000, 1_500_000], "marked": [1, 0]})
    figure = trace_charts.repair(marks, made, killed_us=900_000)
    marked, *workers = figure.data
    assert list(marked.y) == [0, 1, 0]
    assert [round(x, 3) for x in marked.x] == [0, 0.1, 0.6]
    assert {trace.name: trace.y[-1] for trace in workers} == {"a": 5, "b": 1}
    assert all(trace.y[0] == 0 for trace in workers)


def test_life_is_a_bar_while_open_and_one_while_marked() -> None:
    columns = ["created_us", "closed_us", "marked_us", "repaired_us", "deleted_us", "last_entry"]
    lives = pd.DataFrame(
        [
            [7, 0, 1_000_000, 2_000_000, 5_000_000, None, 3],
            [8, 500_000, None, None, None, 1_500_000, None],
        ],
        columns=["ledger", *columns],
    )
    open_bars, marked_bars = trace_charts.life_cycles(lives).data
    assert list(open_bars.base) == [0.0, 0.5]
    assert list(open_bars.x) == [1.0, 1.0]
    assert (list(marked_bars.base), list(marked_bars.x)) == ([2.0], [3.0])


def test_latencies_end_at_all_messages() -> None:
    table = pd.DataFrame({"topic": ["t"] * 3, "latency_ms": [4, 0, 2], "messages": [1, 2, 1]})
    (line,) = charts.latencies(table).data
    assert (list(line.x), list(line.y)) == ([0, 2, 4], [50.0, 75.0, 100.0])


def test_copies_are_shown_beside_the_fair_share() -> None:
    table = pd.DataFrame({"bookie": ["b", "a"], "copies": [30, 10], "of_fair_share": [1.5, 0.5]})
    figure = charts.copies(table)
    assert (list(figure.data[0].x), list(figure.data[0].y)) == (["a", "b"], [10, 30])
    assert [shape.y0 for shape in figure.layout.shapes] == [20]
