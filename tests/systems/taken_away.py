"""Remove names from modules, so that code imported afterwards does not find them.

Modules that were imported earlier keep the names. The standard library and other packages handle
each system themselves, so they are loaded before the names are removed, whereas labkit is loaded
afterwards.
"""

import importlib
import sys
from contextlib import suppress
from types import ModuleType


def load(names: str) -> None:
    """Import these modules, skipping missing ones."""
    for name in names.split():
        with suppress(ImportError):
            importlib.import_module(name)


def take_away(module: ModuleType, names: str) -> ModuleType:
    """Replace the module with a copy that lacks these names, and return the copy."""
    left = ModuleType(module.__name__, module.__doc__)
    gone = set(names.split())
    left.__dict__.update({name: v for name, v in module.__dict__.items() if name not in gone})
    sys.modules[module.__name__] = left
    return left
