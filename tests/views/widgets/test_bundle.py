"""Tests that modules with real imports are bundled into the single module that anywidget needs."""

from pathlib import Path

import pytest

from labkit.views.widgets.bundle import bundle

MAIN = """import { a, b } from "./lib.js";

function render() { return a + b; }

export default { render };
"""


def write(folder: Path, **modules: str) -> None:
    for name, source in modules.items():
        (folder / f"{name}.js").write_text(source)


def test_a_module_takes_the_exports_of_the_module_that_it_imports(tmp_path: Path) -> None:
    write(tmp_path, main=MAIN, lib="export const a = 1;\nexport function b() {}\n")
    source = bundle(tmp_path, "main")
    assert source.index("const _lib") < source.index("const _main")
    assert "const { a, b } = _lib;" in source
    assert "return { a, b };" in source
    assert "\nimport" not in source


def test_imports_in_a_circle_are_refused(tmp_path: Path) -> None:
    write(tmp_path, main=MAIN, lib='import { render } from "./main.js";\n')
    with pytest.raises(ValueError, match="circular import: main -> lib -> main"):
        bundle(tmp_path, "main")


@pytest.mark.parametrize(
    "line", ['import all from "./x.js";', "export { a };", "export * from 'y';"]
)
def test_an_import_or_export_that_is_written_otherwise_is_refused(
    tmp_path: Path, line: str
) -> None:
    write(tmp_path, main=MAIN, lib=f"{line}\n")
    with pytest.raises(ValueError, match=r"lib\.js: cannot join"):
        bundle(tmp_path, "main")
