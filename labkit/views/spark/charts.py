"""Plotly charts of the tables returned by the jobs that analyse messages.

A notebook stores a figure as data, and JupyterLab draws it without network access.
"""

import math

import pandas as pd
import plotly.express as px
import plotly.graph_objects as go

COLOURS = ["#0072b2", "#d55e00", "#00997a"]
"""Colours that colour-blind readers can distinguish; partitions and topics cycle through them."""

GREY, GRID, CLEAR = "#767676", "rgba(128, 128, 128, 0.25)", "rgba(0, 0, 0, 0)"
AXIS = {"gridcolor": GRID, "linecolor": GRID, "zerolinecolor": GRID, "automargin": True}

STYLE = {
    # Grey text on a transparent background is readable in both light and dark themes.
    "template": go.layout.Template(
        layout={
            "font_color": GREY,
            "paper_bgcolor": CLEAR,
            "plot_bgcolor": CLEAR,
            "xaxis": AXIS,
            "yaxis": AXIS,
            "margin": {"t": 64, "b": 64, "l": 64, "r": 24},
        }
    ),
    "width": 700,
    "height": 340,
    "color_discrete_sequence": COLOURS,
}


def ledger_chains(ledgers: pd.DataFrame) -> go.Figure:
    """Draw the time during which each ledger was written, with one lane per partition.

    Expects the result of `messages_per_ledger` for one topic.
    """
    bars = ledgers.sort_values(["partition", "ledger"])
    bars["start_s"] = (bars["first_publish_ms"] - bars["first_publish_ms"].min()) / 1000
    # Add a millisecond, the clock's resolution, so that a ledger with one entry is visible.
    bars["seconds"] = (bars["last_publish_ms"] - bars["first_publish_ms"] + 1) / 1000
    bars["link"] = bars.groupby("partition").cumcount().mod(2).map({0: "even", 1: "odd"})
    figure = px.bar(
        bars,
        x="seconds",
        y="partition",
        base="start_s",
        color="link",
        text="ledger",
        orientation="h",
        hover_data=["messages", "entries", "payload_bytes"],
        title=f"{bars['topic'].iloc[0]}: when was each ledger written?",
        **{**STYLE, "color_discrete_sequence": ["#0072b2", "#56a5d8"]},
    )
    figure.update_layout(showlegend=False, xaxis_title="seconds since the first message")
    figure.update_layout(uniformtext={"minsize": 10, "mode": "hide"})
    figure.update_traces(textposition="inside", insidetextanchor="middle", textangle=0)
    figure.update_traces(marker_line_width=0)
    return figure.update_yaxes(dtick=1, autorange="reversed")


def entry_ids(entries: pd.DataFrame) -> go.Figure:
    """Draw the entry ids in arrival order, with one line per ledger.

    Expects the result of `batch_sizes` for one topic.
    """
    figure = px.line(
        entries.sort_values(["partition", "first_seq"]),
        x="first_seq",
        y="entry",
        facet_row="partition",
        color="partition",
        line_group="ledger",
        render_mode="svg",
        hover_data=["ledger", "batch_size"],
        title=f"{entries['topic'].iloc[0]}: where do the entry ids start over?",
        **{**STYLE, "height": 460},
    )
    figure.for_each_annotation(lambda label: label.update(text=label.text.replace("=", " ")))
    figure.update_yaxes(title="entry id")
    figure.update_xaxes(title="arrival order", row=1)
    return figure.update_layout(showlegend=False)


def batch_histogram(sizes: pd.DataFrame) -> go.Figure:
    """Draw the distribution of messages per entry, given columns `topic`, `batch_size`, `count`."""
    figure = px.bar(
        sizes,
        x="batch_size",
        y="count",
        labels={"count": "entries"},
        facet_col="topic",
        color="topic",
        log_y=True,
        title="How many messages are in an entry?",
        **STYLE,
    )
    figure.for_each_annotation(lambda label: label.update(text=label.text.removeprefix("topic=")))
    figure.update_xaxes(title="messages in the entry", range=[0, sizes["batch_size"].max() + 2])
    # On a logarithmic axis, a count of one has no height unless the axis starts below 1.
    figure.update_yaxes(dtick=1, range=[-0.3, math.log10(sizes["count"].max()) + 0.2])
    figure.update_traces(marker_line_width=0, width=1)
    return figure.update_layout(showlegend=False, bargap=0)


def publish_rate(rate: pd.DataFrame) -> go.Figure:
    """Draw the result of `publish_rate`, from each topic's first message on."""
    points = rate.sort_values(["topic", "bucket_start_ms"])
    begin = points.groupby("topic")["bucket_start_ms"].transform("min")
    points["seconds"] = (points["bucket_start_ms"] - begin) / 1000
    figure = px.line(
        points,
        x="seconds",
        y="messages",
        color="topic",
        log_y=True,
        markers=True,
        title="How many messages were published, and when?",
        **STYLE,
    )
    figure.update_yaxes(dtick=1)
    figure.update_traces(marker_size=4, line_width=1.5)
    figure.update_layout(legend={"orientation": "h", "y": -0.3, "title": ""})
    return figure.update_layout(xaxis_title="seconds since the topic's first message")


def latencies(distribution: pd.DataFrame) -> go.Figure:
    """Draw the result of `latency_distribution` for one topic as a cumulative distribution."""
    points = distribution.sort_values("latency_ms")
    points["percent"] = 100 * points["messages"].cumsum() / points["messages"].sum()
    figure = px.line(
        points,
        x="latency_ms",
        y="percent",
        hover_data=["messages"],
        title=f"{points['topic'].iloc[0]}: how soon was a message received?",
        line_shape="hv",
        **STYLE,
    )
    figure.update_yaxes(title="percent of the messages", range=[0, 102])
    return figure.update_xaxes(title="received within this many ms", rangemode="tozero")


def copies(counted: pd.DataFrame) -> go.Figure:
    """Draw the result of `copies_per_bookie`: each bookie's copies, compared with the average."""
    figure = px.bar(
        counted.sort_values("bookie"),
        x="bookie",
        y="copies",
        text="copies",
        hover_data=["of_fair_share"],
        title="How many copies does each bookie hold?",
        **STYLE,
    )
    figure.update_traces(marker_line_width=0, width=0.6, textposition="inside")
    figure.update_traces(insidetextanchor="start")
    fair = {"y": counted["copies"].mean(), "line_dash": "dot", "line_color": COLOURS[1]}
    figure.add_hline(**fair, annotation_text="equal share", annotation_position="top right")
    return figure.update_xaxes(title="")
