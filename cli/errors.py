"""An error that the user can do something about: one or more lines, printed without a traceback."""

BAD_INPUT = 2
JOB_FAILED = 1


class UserError(Exception):
    """Ends the command with `code`; the text says what is wrong and what to change."""

    def __init__(self, message: str, code: int = BAD_INPUT) -> None:
        super().__init__(message)
        self.code = code
