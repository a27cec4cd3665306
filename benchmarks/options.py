"""The command line options that benchmarks share."""

import argparse


def benchmark_parser(
    docstring: str, *, quick: str, minutes: float | None = None, what: str = "points"
) -> argparse.ArgumentParser:
    """Return a parser with the option `--quick`, and with `--minutes` if `minutes` sets its
    default.

    quick: how a quick run differs; its results are printed but not stored.
    what: the units of work, none of which are started after N minutes.
    """
    parser = argparse.ArgumentParser(description=docstring.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{quick}, only printed")
    if minutes is not None:
        text = f"start no further {what} after N minutes (default: {minutes:g})"
        parser.add_argument("--minutes", type=float, default=minutes, metavar="N", help=text)
    return parser
