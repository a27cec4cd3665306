"""Plotly charts of the results of the jobs that analyse a run's events, in the style of
`charts`.
"""

from itertools import pairwise

import pandas as pd
import plotly.express as px
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from labkit.views.spark.charts import COLOURS, STYLE

SHADES = ["#0072b2", "#56a5d8", "#00997a", "#e69f00", "#d55e00"]
US_PER_S = 1_000_000
MS_PER_S = 1_000
STATES = {"created_us": "closed_us", "marked_us": "repaired_us"}
NAMES = {"created_us": "open", "marked_us": "marked, up to its repair"}


def repair(marks: pd.DataFrame, made: pd.DataFrame, killed_us: int) -> go.Figure:
    """Draw the under-replicated ledgers (top) and the copies made (bottom) since the bookie was
    killed.

    Expects the results of `underreplicated_ledgers` and `copies_made`.
    """
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.08)
    steps = marks.sort_values("seq")
    seconds = (steps["time_us"] - killed_us) / US_PER_S
    line = {"shape": "hv", "color": COLOURS[0], "width": 2}
    marked = {"x": [0.0, *seconds], "y": [0, *steps["marked"]], "line": line, "mode": "lines"}
    figure.add_scatter(**marked, fill="tozeroy", name="", row=1, col=1)
    totals = _totals(made)
    at = (totals.index - killed_us / MS_PER_S) / MS_PER_S
    for number, worker in enumerate(totals.columns):
        figure.add_scatter(
            x=at,
            y=totals[worker],
            stackgroup="copies",
            mode="lines",
            line={"width": 0.5, "color": SHADES[number % len(SHADES)]},
            name=worker,
            row=2,
            col=1,
        )
    size = {"template": STYLE["template"], "width": STYLE["width"], "height": 440}
    figure.update_layout(**size, title="How many ledgers are short of copies, and who copies?")
    figure.update_layout(legend={"orientation": "h", "y": -0.2})
    figure.update_traces(showlegend=False, row=1)
    figure.update_yaxes(title="marked ledgers", row=1)
    figure.update_yaxes(title="copies made", row=2)
    return figure.update_xaxes(title="seconds since the bookie was killed", row=2)


def _totals(made: pd.DataFrame) -> pd.DataFrame:
    """Return each worker's running total at the start of the first bucket and at the end of each
    one.
    """
    starts = sorted(made["bucket_start_ms"].unique())
    width = min((b - a for a, b in pairwise(starts)), default=1)
    counts = made.pivot_table(
        index="bucket_start_ms", columns="worker", values="copies", fill_value=0
    )
    every = counts.reindex(range(starts[0] - width, starts[-1] + width, width), fill_value=0)
    every.index += width
    return every.cumsum()


def life_cycles(lives: pd.DataFrame) -> go.Figure:
    """Draw the times during which each ledger was open or under-replicated, given the result of
    `ledger_life_cycles`.
    """
    zero = lives["created_us"].min()
    last = lives.select_dtypes("number").drop(columns=["ledger", "last_entry"]).max().max()
    bars = []
    for begin, end in STATES.items():
        part = lives[lives[begin].notna()]
        ends = part[end].fillna(part["deleted_us"]).fillna(last)
        bars.append(
            pd.DataFrame(
                {
                    "ledger": part["ledger"],
                    "begin": (part[begin] - zero) / US_PER_S,
                    "seconds": (ends - part[begin]) / US_PER_S,
                    "state": NAMES[begin],
                }
            )
        )
    figure = px.bar(
        pd.concat(bars),
        x="seconds",
        y="ledger",
        base="begin",
        color="state",
        orientation="h",
        title="When was a ledger open, and when short of copies?",
        **{**STYLE, "height": 440},
    )
    figure.update_traces(marker_line_width=0, width=0.8)
    figure.update_layout(barmode="overlay", legend={"orientation": "h", "y": -0.2, "title": ""})
    figure.update_yaxes(autorange="reversed", dtick=1, title="ledger")
    return figure.update_xaxes(title="seconds since the first ledger was created")
