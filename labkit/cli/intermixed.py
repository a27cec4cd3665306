"""A parser that takes options between positional arguments, as GNU's tools do."""

import argparse
from collections.abc import Callable
from typing import Any


class IntermixedParser(argparse.ArgumentParser):
    """`labkit grade ada --out reports bob` has two positional arguments, `ada` and `bob`.

    argparse fills a list of positional arguments at its first part and refuses the rest, except
    through `parse_known_intermixed_args`, which its parsers of verbs do not call.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._is_plain = False
        self._fill: Callable[[argparse.ArgumentParser], None] | None = None
        super().__init__(*arguments, **options)

    def fill_when_used(self, fill: Callable[[argparse.ArgumentParser], None]) -> None:
        """Let `fill` add the arguments of this verb only if it is called: it may import much."""
        self._fill = fill

    def add_subparsers(self, **options: Any) -> Any:
        """As argparse; a parser with verbs cannot intermix, its verbs can."""
        self._is_plain = True
        return super().add_subparsers(**options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse.  Until Python 3.12 the intermixed parse calls this method twice."""
        if self._fill is not None:
            fill, self._fill = self._fill, None
            fill(self)
        if self._is_plain:
            return super().parse_known_args(args, namespace)
        self._is_plain = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_plain = False
