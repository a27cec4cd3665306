"""labkit: Apache BookKeeper and Pulsar's storage, small and real, taught by running it.

    system/  the storage system, in the order of an entry's path
    worlds/  where it runs: real processes, or a simulation
    views/   pictures, tables and tools that look at it
    course/  the lessons, the exercises and their grading
    cli/     the command `labkit`
    shipped_files   finds the notebooks and data that came with labkit

A package imports only from those above it in this list: the system does not import the worlds.
Each package's `__init__` lists its modules; ARCHITECTURE.md follows an entry through them.

`import labkit` offers the names that a notebook needs most: `__init__.pyi` lists them.  Each is
imported when it is first used, so that a bookie's process starts without the pictures.
"""

import ast
from functools import cache
from importlib import import_module
from pkgutil import get_data

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    offered = _offered()
    if name == "__all__":
        return sorted(offered)
    if name not in offered:
        raise AttributeError(f"labkit offers no {name!r}; it offers {', '.join(sorted(offered))}")
    return getattr(import_module(offered[name], __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_offered()})


@cache
def _offered() -> dict[str, str]:
    # The stub is the one list of these names, for type checkers and for this module.
    # Read through the loader: in Spark's workers this package is in a zip file.
    stub = ast.parse(get_data(__name__, "__init__.pyi") or b"")
    imports = (node for node in stub.body if isinstance(node, ast.ImportFrom))
    return {alias.name: f".{node.module}" for node in imports for alias in node.names}
