"""The named colours of all views, for light and dark pages, and the CSS rules that apply them.

A colour name has the same meaning in every view. The eight hues (Okabe and Ito's blue, vermilion,
purple and green, made darker or lighter for contrast) can be distinguished by colour-blind readers,
and no view conveys anything by colour alone. Marks refer to colours by class (`f-stored` fills,
`s-stored` strokes), because every SVG renderer supports classes but not all support CSS variables.
"""

import re

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
    "safe": ("#bfe3d5", "#1a4d3d", "{}"),
}
"""For each name, the colour for light pages, the colour for dark pages, and JupyterLab's own
variable if it has one.
"""

_HUES = (
    *(("#0072b2", "#56b4e9"), ("#c07800", "#f0b050"), ("#00805e", "#2cc295")),
    *(("#a8487f", "#e79bd0"), ("#8a7400", "#e0d060"), ("#3d6fd0", "#9fb4ff")),
    ("#a85a00", "#ffa04d"),
)
_TINTS = (
    *(("#cfe3f1", "#0b3853"), ("#f9dfc4", "#62490f"), ("#cdeadd", "#0b493b")),
    *(("#ecd6ea", "#583a4e"), ("#f7efb5", "#60580f"), ("#d7ecf8", "#2b5167")),
    *(("#f5d3cf", "#5c300f"), ("#dadcf3", "#393a60"), ("#e3ecc6", "#475525")),
    *(("#e6ddd2", "#4a3f31"), ("#d9b3d3", "#7a4a72")),
)
HUES: dict[str, tuple[str, str]] = {
    **{f"hue{place}": each for place, each in enumerate(_HUES)},
    **{f"tint{place}": each for place, each in enumerate(_TINTS)},
}
"""The light and dark colours that distinguish things of the same kind, such as ledgers or fields of
bytes. Text in `ink` is readable on a tint.
"""

_COMMON = (
    ".mono{font-family:DejaVu Sans Mono,Menlo,Consolas,monospace}"
    ".wash{fill-opacity:.12}"
    ".halo{paint-order:stroke;stroke-width:4px;stroke-linejoin:round}"
)


def _rules(colours: dict[str, str]) -> str:
    return ".f-none{fill:transparent}" + _names(colours) + f".halo{{stroke:{colours['page']}}}"


def _names(colours: dict[str, str]) -> str:
    return "".join(f".f-{name}{{fill:{c}}}.s-{name}{{stroke:{c}}}" for name, c in colours.items())


def _variables(which: int) -> str:
    own = "".join(f"--lk-{name}:{each[2].format(each[which])};" for name, each in COLOURS.items())
    return own + "".join(f"--lk-{name}:{each[which]};" for name, each in HUES.items())


STILL_STYLE = (
    _COMMON
    + _rules({name: each[0] for name, each in COLOURS.items()})
    + "@media (prefers-color-scheme:dark){"
    + _rules({name: each[1] for name, each in COLOURS.items()})
    + "}"
)
"""The style of a stored picture, which follows the reader's system settings."""


def still_style(classes: str) -> str:
    """Return the style of a stored picture, including the rules for the hues and tints in
    `classes`.
    """
    used = set(re.findall(r"\b[fs]-((?:hue|tint)\d+)\b", classes))
    light, dark = (_names({name: HUES[name][which] for name in sorted(used)}) for which in (0, 1))
    if not used:
        return STILL_STYLE
    return f"{STILL_STYLE}{light}@media (prefers-color-scheme:dark){{{dark}}}"


LIVE_STYLE = (
    _COMMON
    + _rules({name: f"var(--lk-{name})" for name in COLOURS})
    + _names({name: f"var(--lk-{name})" for name in HUES})
    + f".lk-view{{{_variables(0)}}}"
    + f'body[data-jp-theme-light="false"] .lk-view{{{_variables(1)}}}'
    + "@media (prefers-color-scheme:dark){"
    + f"body:not([data-jp-theme-light]) .lk-view{{{_variables(1)}}}}}"
)
"""The style of a live view. It follows JupyterLab's theme or, outside JupyterLab, the reader's
system settings.
"""
