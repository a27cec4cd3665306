"""The error for a missing or unsuitable part of the machine, such as no Java or a port in use.

The message is the same everywhere, even in `labkit doctor`, which calls the same functions.
"""


class MissingPart(RuntimeError):
    """A part that labkit needs is missing or unsuitable; the message is one line with the remedy.

    `part` names it, `detail` says what is wrong, `remedy` what to do.
    """

    def __init__(self, part: str, detail: str, remedy: str) -> None:
        self.part = part
        self.detail = detail
        self.remedy = remedy
        super().__init__(f"{part}: {detail}; {remedy}")
