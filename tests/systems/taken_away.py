"""Takes names out of modules for all that is imported from now on.

What was imported before keeps the whole module: the standard library and other packages know each
system by themselves, so they are loaded first, and labkit afterwards.
"""

import importlib
import sys
from contextlib import suppress
from types import ModuleType


def load(names: str) -> None:
    """Import these modules, as far as they are there."""
    for name in names.split():
        with suppress(ImportError):
            importlib.import_module(name)


def take_away(module: ModuleType, names: str) -> ModuleType:
    """A module in place of this one, without these names."""
    left = ModuleType(module.__name__, module.__doc__)
    gone = set(names.split())
    left.__dict__.update({name: v for name, v in module.__dict__.items() if name not in gone})
    sys.modules[module.__name__] = left
    return left
