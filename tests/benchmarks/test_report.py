"""Tests that the report and docs/performance.md are generated from the stored results alone."""

import re
from pathlib import Path

import pytest

from benchmarks.family import PERFORMANCE_PAGE
from benchmarks.measure import Figure
from benchmarks.report import goals, pictures, profile, report, with_key_figures
from benchmarks.results import RESULTS, Run, store, stored_runs


def run(
    *figures: Figure, day: str = "2026-01-01", load: float = 0.1, family: str = "storage"
) -> Run:
    return Run(family, day, "a machine", load, figures)


def cost(ledgers: int, us: float) -> Figure:
    return Figure("adds", (us,), " µs", is_work=True, conditions={"ledgers": ledgers})


def row(name: str, runs: list[Run]) -> list[str]:
    lines = [line for line in goals(runs).splitlines() if line.startswith(f"| {name}")]
    assert len(lines) == 1
    return [cell.strip() for cell in lines[0].strip("|").split("|")]


def test_a_figure_beyond_its_goal_is_missed_and_comes_before_those_that_met_theirs() -> None:
    quick = Figure("adds", (2.0, 2.5, 3.0), at_least=2.0)
    slow = Figure("start", (0.7,), " s", at_most=0.5)
    assert row("adds", [run(quick, slow)])[4] == "met"
    assert row("start", [run(quick, slow)])[2:5] == [
        "at most 0.50 s",
        "0.70 s (0.70 to 0.70)",
        "**missed**",
    ]
    text = goals([run(quick, slow)])
    assert text.startswith("1 of 2 goals")
    assert text.index("| start") < text.index("| adds")


def test_a_figure_that_could_not_be_measured_is_named_with_the_reason() -> None:
    peer = Figure("adds, times LMDB", (), at_least=2.0, note="skipped: `pip install lmdb`")
    assert row("adds, times LMDB", [run(peer)])[4] == "not measured: skipped: `pip install lmdb`"


@pytest.mark.parametrize(
    ("second", "confirmed"),
    [
        (run(Figure("adds", (1.1,), at_least=1), day="2026-01-02"), "yes: two days"),
        (
            run(Figure("adds", (2.0,), at_least=1), day="2026-01-02"),
            "no: two days differ, 1.00 and 2.00",
        ),
        (run(Figure("adds", (1.1,), at_least=1), day="2026-01-02", load=3.0), "no: one run"),
    ],
)
def test_a_figure_is_confirmed_by_a_quiet_run_on_another_day(second: Run, confirmed: str) -> None:
    first = run(Figure("adds", (1.0,), at_least=1))
    assert row("adds", [first])[5] == "no: one run"
    assert row("adds", [first, second])[5] == confirmed


def test_processor_time_counts_on_a_busy_machine_and_the_clock_does_not() -> None:
    figures = Figure("cpu", (1.0,), at_most=2, is_work=True), Figure("time", (1.0,), at_most=2)
    days = [run(*figures, day=day, load=5.0) for day in ("2026-01-01", "2026-01-02")]
    assert row("cpu", days)[5] == "yes: two days"
    assert row("time", days)[5] == "no: measured on a busy machine"


def test_work_that_grows_with_the_number_of_ledgers_is_missed() -> None:
    grown = [run(cost(1000, 6.0), cost(1, 2.0), family="growth")]
    assert row("adds: 1,000 ledgers, times 1", grown)[3:5] == ["3.00 (3.00 to 3.00)", "**missed**"]
    flat = [run(cost(1000, 2.5), cost(1, 2.0), family="growth")]
    assert row("adds: 1,000 ledgers, times 1", flat)[4] == "met"


def test_a_cost_that_is_lost_in_other_work_begins_no_series() -> None:
    grown = [run(cost(1, -1.0), cost(10, 2.0), cost(1000, 6.0), family="growth")]
    assert row("adds: 1,000 ledgers, times 10", grown)[4] == "**missed**"


def test_an_entry_that_pays_for_its_ledger_has_no_goal_and_its_ledger_has_one() -> None:
    def grown(unit: str) -> list[Run]:
        where = [{"ledgers": 1}, {"ledgers": 1000}]
        figures = (Figure("read", (at["ledgers"],), unit, conditions=at) for at in where)
        return [run(*figures, family="growth")]

    assert "| read" not in goals(grown(" µs an entry"))
    assert row("read: 1,000 ledgers, times 1", grown(" µs a ledger"))[4] == "**missed**"


def test_stages_of_both_systems_stand_side_by_side_with_their_sum() -> None:
    seen = [
        ("sockets", "labkit", 2.0),
        ("sockets", "BookKeeper", 3.0),
        ("compiler", "BookKeeper", 1),
    ]
    figures = [
        Figure(stage, (us,), " µs", conditions={"process": "bookie", "kind": kind})
        for stage, kind, us in seen
    ]
    made = report([run(*figures, family="thread-times")])
    assert "| stage of an add in a bookie | labkit, µs | BookKeeper, µs |" in made
    assert "| sockets | 2.00 | 3.00 |" in made
    assert "| compiler |  | 1.00 |" in made
    assert "| in all | 2.00 | 4.00 |" in made


def test_the_report_shows_the_latest_run_of_a_family_and_how_it_is_measured() -> None:
    runs = [run(Figure("old", (1.0,)), day="2026-01-01"), run(Figure("adds", (2.0,)), load=4)]
    made = report(runs)
    assert "| adds | 2.00 (2.00 to 2.00) |" in made
    assert "| old |" not in made
    assert "other programs were at work" in made
    assert "python -m benchmarks.storage" in made


def test_the_key_figures_replace_the_old_table_and_the_text_around_it_stays() -> None:
    name = "adds in groups of 64, of raw append + fdatasync"
    page = "before\n<!-- key figures: begin -->\nold\n<!-- key figures: end -->\nafter\n"
    made = with_key_figures(page, [run(Figure(name, (0.4,), at_least=0.5))])
    assert made.startswith("before\n")
    assert made.endswith("after\n")
    assert "old" not in made
    wording = "adds per second in groups of 64, relative to raw writes with `fdatasync`"
    assert f"| {wording} | at least 0.50 | 0.40 (0.40 to 0.40) | **missed** | 2026-01-01 |" in made
    assert with_key_figures(made, [run(Figure(name, (0.4,), at_least=0.5))]) == made


def test_a_page_without_the_comments_around_its_table_is_rejected() -> None:
    with pytest.raises(ValueError, match="key figures"):
        with_key_figures("no table", [])


def test_the_profile_has_each_stage_with_its_share() -> None:
    stages = (
        Figure("stage of an add: frames", (1.0,), " µs"),
        Figure("stage of an add: answers", (3.0,), " µs"),
    )
    made = profile([run(*stages)])
    assert "| frames | 1.00 µs | 25% |" in made
    assert "| answers | 3.00 µs | 75% |" in made


def test_each_family_that_compares_systems_has_a_bar_chart_of_its_own() -> None:
    def compared(family: str, *systems: str) -> Run:
        figures = [Figure("time", (2.0,), " s", conditions={"system": each}) for each in systems]
        return run(*figures, family=family)

    three = "Spark", "DuckDB", "Polars"
    drawn = pictures([compared("replication", *three[:2]), compared("spark-scale", *three)])
    assert list(drawn) == ["replication-speed.svg", "spark-scale.svg"]
    assert [each.count(">2.0 s</text>") for each in drawn.values()] == [2, 3]
    assert all(f">{each}</text>" in drawn["spark-scale.svg"] for each in three)


def test_a_system_that_needs_nothing_has_a_bar_without_length() -> None:
    nothing = Figure("temporary files", (0.0,), " MB", conditions={"system": "Polars"})
    [drawn] = pictures([run(nothing, family="spark-scale")]).values()
    assert "width='0.0'" in drawn


def test_a_plot_has_a_line_for_each_series_and_a_point_for_each_size() -> None:
    drawn = pictures([run(cost(1, 2.0), cost(100_000, 3.0), family="growth")])
    assert list(drawn) == ["growth-ledgers.svg"]
    assert drawn["growth-ledgers.svg"].count("<circle") == 2
    assert "adds (µs)" in drawn["growth-ledgers.svg"]


def test_a_stored_run_is_read_back_as_it_was(tmp_path: Path) -> None:
    kept = run(cost(10, 0.0), Figure("adds", (), at_most=0.0, note="why"), load=1.5)
    store(kept, tmp_path)
    assert stored_runs(tmp_path) == [kept]
    assert kept.is_busy


def test_the_performance_page_shows_the_stored_results() -> None:
    text = PERFORMANCE_PAGE.read_text(encoding="utf-8")
    assert with_key_figures(text, stored_runs()) == text, "run: python -m benchmarks --page"
    assert text.count("| 2026-") == 10


def test_the_report_has_each_picture_that_it_shows() -> None:
    runs = stored_runs()
    shown = re.findall(r"\]\(([\w-]+\.svg)\)", report(runs))
    assert sorted(shown) == sorted(pictures(runs))


def test_stored_results_name_no_path_and_no_host() -> None:
    for path in RESULTS.glob("*.json"):
        found = re.search(
            r"(?<![\w/])/(?:home|root|tmp|work)\b|https?:|\d+(?:\.\d+){3}",
            path.read_text(encoding="utf-8"),
        )
        assert not found, f"{path.name}: {found}"
