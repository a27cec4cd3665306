"""Bundles the modules of `browser/` into the single module that anywidget accepts.

The sources are ordinary ES modules with real imports, so editors, Node and browser tests can use
them unchanged. anywidget, however, runs a view's code from a blob, where relative imports cannot be
resolved, and a JupyterLab page accepts no import map once it has loaded. Nested data URLs would
grow by a third with each level. The modules are therefore bundled when this
package is imported: each module becomes a function that runs once and returns its exports, and each
import reads from the result of such a function. The bundle works in JupyterLab, on a static page
and in a sandboxed frame.

This requires that each import is a single line of the form `import { a, b } from "./c.js";`, that
`export` is written before the declaration, and that there are no circular imports.
"""

import re
from importlib.resources.abc import Traversable

_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "\./(\w+)\.js";\n', re.M)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const|let) (\w+))", re.M)
_DEFAULT = re.compile(r"^export default \{ (\w+) \};\n", re.M)


def bundle(folder: Traversable, entry: str) -> str:
    """Return the module `entry` and everything it imports as one module with the same exports.

    Raises `ValueError` if an import or export has a different form, or if imports are circular.
    """
    joined: dict[str, str] = {}
    _join(folder, entry, joined, ())
    return "\n".join(joined.values()) + f"\nexport default {{ render: _{entry}.render }};\n"


def _join(
    folder: Traversable, name: str, joined: dict[str, str], importing: tuple[str, ...]
) -> None:
    if name in importing:
        raise ValueError(f"circular import: {' -> '.join((*importing, name))}")
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
