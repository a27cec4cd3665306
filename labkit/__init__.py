"""labkit: the storage system under Apache Pulsar, taught by running it.

    system/         the storage system itself: bookies, clients, autorecovery, brokers
    worlds/         where the system runs: in real processes, or in a simulation
    views/          tools that show the system: widgets, the shell, Spark tables
    course/         the lessons, the exercises and their grading
    cli/            the command `labkit`
    shipped_files   finds the notebooks and data that are installed with labkit

A package imports only packages listed above it; for example, the system never imports the worlds.
Each package's `__init__` lists its modules, and ARCHITECTURE.md follows an entry through them.

`__init__.pyi` lists the names that `import labkit` provides, the ones that notebooks use most.
Each is imported on first use, so that a bookie process starts without importing the widgets.
"""

import ast
from functools import cache
from importlib import import_module
from pkgutil import get_data

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    modules = _exported_modules()
    if name == "__all__":
        return sorted(modules)
    if name not in modules:
        raise AttributeError(f"labkit has no {name!r}; available: {', '.join(sorted(modules))}")
    return getattr(import_module(modules[name], __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_exported_modules()})


@cache
def _exported_modules() -> dict[str, str]:
    # The stub is the only list of these names, for both type checkers and this module.
    # Read it through the loader, because in Spark workers this package is inside a zip file.
    stub = ast.parse(get_data(__name__, "__init__.pyi") or b"")
    imports = (node for node in stub.body if isinstance(node, ast.ImportFrom))
    return {alias.name: f".{node.module}" for node in imports for alias in node.names}
