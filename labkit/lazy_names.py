"""Lets a package import its names on first use, so that importing the package itself is fast.

`labkit.course.lessons` is such a package. The stub `__init__.pyi` of each such package lists its
names and the modules that define them. Both type checkers and this module read the stub.
"""

import ast
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pkgutil import get_data


def names_of(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the package's `__getattr__` and `__dir__`."""

    @cache
    def modules() -> dict[str, str]:
        # Read the stub through the loader, because in Spark workers labkit is inside a zip file.
        stub = ast.parse(get_data(package, "__init__.pyi") or b"")
        imports = (node for node in stub.body if isinstance(node, ast.ImportFrom))
        return {
            alias.name: "." * node.level + (node.module or "")
            for node in imports
            for alias in node.names
        }

    def get(name: str) -> object:
        if name == "__all__":
            return sorted(modules())
        if name not in modules():
            available = ", ".join(sorted(modules()))
            raise AttributeError(f"{package} has no {name!r}; available: {available}")
        module = import_module(modules()[name], package)
        if not hasattr(module, name):
            import_module(f"{module.__name__}.{name}")  # The name refers to a submodule.
        return getattr(module, name)

    return get, lambda: sorted(modules())
