"""The arguments of `labkit grade`, apart from what needs time to import."""

import argparse
from pathlib import Path


def add_grade(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> argparse.ArgumentParser:
    """Add the verb and its arguments; returns the verb's parser."""
    parser = verbs.add_parser("grade", help="judge a class's notebooks, each in a sandbox")
    parser.add_argument(
        "folders", type=Path, nargs="+", metavar="FOLDER", help="a student's folder or notebook"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("grades"), help="for the reports (default: grades)"
    )
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="limit of a function (default: 20)"
    )
    parser.add_argument(
        "--jobs", type=int, default=0, help="submissions at a time (default: one per processor)"
    )
    parser.add_argument(
        "--without-sandbox", action="store_true", help="run code that you trust, not shut in"
    )
    return parser
