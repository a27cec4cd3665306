"""The error that reports a missing or unsuitable prerequisite, such as a missing Java installation
or a port that is already in use.

`labkit doctor` prints the same messages, because it calls the same checks.
"""


class MissingPart(RuntimeError):
    """`detail` describes what is wrong with the `part`, and `remedy` explains how to fix it."""

    def __init__(self, part: str, detail: str, remedy: str) -> None:
        self.part = part
        self.detail = detail
        self.remedy = remedy
        super().__init__(f"{part}: {detail}; {remedy}")
