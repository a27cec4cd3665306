"""The colours of all views by name, for light and dark pages, and the rules that apply them.

Every name means one thing in every view.  The eight are told apart by the colour-blind (Okabe and
Ito's blue, vermilion, purple and green; darker or lighter for contrast), and no view says anything
by colour alone.  A mark names its colours by class (`f-stored` fills, `s-stored` strokes), since
every renderer of SVG knows classes, and not all know CSS variables.
"""

COLOURS: dict[str, tuple[str, str, str]] = {
    "page": ("#ffffff", "#111418", "var(--jp-layout-color1, {})"),
    "box": ("#f3f4f6", "#22272e", "var(--jp-layout-color2, {})"),
    "line": ("#c4c9d0", "#4b535d", "var(--jp-border-color1, {})"),
    "ink": ("#1f2328", "#e6edf3", "var(--jp-ui-font-color0, {})"),
    "faint": ("#57606a", "#a7b0ba", "{}"),
    "stored": ("#0072b2", "#56b4e9", "{}"),
    "tint": ("#cfe3f1", "#17425d", "{}"),
    "lost": ("#b84e00", "#ff8a3d", "{}"),
    "confirmed": ("#aa4499", "#e79bd0", "{}"),
    "well": ("#007a5a", "#2cc295", "{}"),
}
"""Light, dark, and JupyterLab's own colour where it has one."""

_COMMON = (
    ".mono{font-family:DejaVu Sans Mono,Menlo,Consolas,monospace}"
    ".halo{paint-order:stroke;stroke-width:4px;stroke-linejoin:round}"
)


def _rules(colours: dict[str, str]) -> str:
    rules = [".f-none{fill:transparent}"] + [
        f".f-{name}{{fill:{c}}}.s-{name}{{stroke:{c}}}" for name, c in colours.items()
    ]
    return "".join(rules) + f".halo{{stroke:{colours['page']}}}"


def _variables(which: int) -> str:
    return "".join(f"--lk-{name}:{each[2].format(each[which])};" for name, each in COLOURS.items())


STILL_STYLE = (
    _COMMON
    + _rules({name: each[0] for name, each in COLOURS.items()})
    + "@media (prefers-color-scheme:dark){"
    + _rules({name: each[1] for name, each in COLOURS.items()})
    + "}"
)
"""For a stored picture: it follows the reader's system."""

LIVE_STYLE = (
    _COMMON
    + _rules({name: f"var(--lk-{name})" for name in COLOURS})
    + f".lk-view{{{_variables(0)}}}"
    + f'body[data-jp-theme-light="false"] .lk-view{{{_variables(1)}}}'
    + "@media (prefers-color-scheme:dark){"
    + f"body:not([data-jp-theme-light]) .lk-view{{{_variables(1)}}}}}"
)
"""For a living one: it follows JupyterLab's theme, and elsewhere the reader's system."""
