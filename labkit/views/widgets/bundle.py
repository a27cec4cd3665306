"""The modules of `browser/` as the one module that anywidget takes.

They are ES modules with real imports, so editors, tests in a browser and Node read them unchanged.
But anywidget runs a view's code from a blob, where a relative import cannot be resolved, and a page
of JupyterLab accepts no import map once it is loaded.  Data URLs would nest and grow by a third
with each level.  So the modules are joined when this package is imported: each becomes a function
that runs once and returns its exports, and imports read these.  One blob works everywhere: in
JupyterLab, on a static page, in a sandboxed frame.

For this, an import must be one line, `import { a, b } from "./c.js";`, `export` must stand before
the declaration, and imports must not form a circle.
"""

import re
from importlib.resources.abc import Traversable

_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "\./(\w+)\.js";\n', re.M)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const|let) (\w+))", re.M)
_DEFAULT = re.compile(r"^export default \{ (\w+) \};\n", re.M)


def bundle(folder: Traversable, entry: str) -> str:
    """The module `entry` with everything that it imports, as one module with the same exports.

    Raises `ValueError` for an import or export in another form, and for a circle.
    """
    joined: dict[str, str] = {}
    _join(folder, entry, joined, ())
    return "\n".join(joined.values()) + f"\nexport default {{ render: _{entry}.render }};\n"


def _join(
    folder: Traversable, name: str, joined: dict[str, str], importing: tuple[str, ...]
) -> None:
    if name in importing:
        raise ValueError(f"imports make a circle: {' -> '.join((*importing, name))}")
    if name in joined:
        return
    source = (folder / f"{name}.js").read_text(encoding="utf-8")
    for _, imported in _IMPORT.findall(source):
        _join(folder, imported, joined, (*importing, name))
    exports = ", ".join(_EXPORT.findall(source) + _DEFAULT.findall(source))
    source = _DEFAULT.sub("", _EXPORT.sub("", _IMPORT.sub(r"const { \1 } = _\2;\n", source)))
    if found := re.search(r"^(import|export)\b.*", source, re.M):
        raise ValueError(f"{name}.js: cannot join `{found[0]}`")
    joined[name] = f"const _{name} = (() => {{\n{source}\nreturn {{ {exports} }};\n}})();"
