"""The error for a missing or unsuitable prerequisite, such as no Java or a port already in use.

The message is the same everywhere, because `labkit doctor` calls the same checks.
"""


class MissingPart(RuntimeError):
    """`detail` says what is wrong with the `part`, and `remedy` says what to do."""

    def __init__(self, part: str, detail: str, remedy: str) -> None:
        self.part = part
        self.detail = detail
        self.remedy = remedy
        super().__init__(f"{part}: {detail}; {remedy}")
