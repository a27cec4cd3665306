"""The error for a part of the machine that is missing or unfit: no Java, a port that is taken.

It reads the same everywhere, also in `labkit doctor`, which calls the same functions.
"""


class MissingPart(RuntimeError):
    """A part that labkit needs is missing or unfit; the message is one line with the remedy.

    `part` names it, `detail` says what is wrong, `remedy` what to do.
    """

    def __init__(self, part: str, detail: str, remedy: str) -> None:
        self.part = part
        self.detail = detail
        self.remedy = remedy
        super().__init__(f"{part}: {detail}; {remedy}")
