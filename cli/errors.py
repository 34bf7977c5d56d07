"""An error that the user can do something about: one or more lines, printed without a traceback."""

BAD_INPUT = 2
JOB_FAILED = 1
STUCK = 3


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error in the group that several tasks have left: of those that ended for one cause, the cause."""
    inner = group.exceptions[0]
    return first_of(inner) if isinstance(inner, BaseExceptionGroup) else inner


class UserError(Exception):
    """Ends the command with `code`; the text says what is wrong and what to change."""

    def __init__(self, message: str, code: int = BAD_INPUT) -> None:
        super().__init__(message)
        self.code = code


# By extra: what needs it, and the modules that come with it. The operator's image has none of the embedded cluster.
_EXTRAS = {
    "local": ("the embedded cluster", ("localcluster", "jsonschema_rs", "jsonpatch", "jsonpath")),
    "dashboard": ("the dashboard", ("jinja2",)),
}


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """What to install for a module that is not there; None for one that belongs to no extra."""
    top = (error.name or "").partition(".")[0]
    return next((f"{who} needs: pip install 'jobcommon[{e}]'" for e, (who, modules) in _EXTRAS.items() if top in modules), None)
