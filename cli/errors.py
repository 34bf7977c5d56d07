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


def usage_error(error: Exception) -> str | None:
    """What is wrong with the arguments, as other errors word it: the option first. None for another error.

    Typer has a click of its own since 0.20, of which it exports no such classes.
    """
    words = getattr(error, "format_message", None)
    if words is None:
        return None
    # Typer leaves the values to pydantic, whose words are of inputs.
    said = str(getattr(error, "message", "")).removeprefix("Value error, ").partition(", unable to parse")[0]
    parameter = getattr(error, "param", None)
    if parameter is None:
        text = str(words())
        return text[:1].lower() + text[1:].removesuffix(".")
    option = parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar or parameter.name
    return f"{option}: {said.replace('Input should be', 'must be') or 'Required value'}"


# By extra: what needs it, and the modules that come with it. The operator's image has none of the embedded cluster.
_EXTRAS = {
    "local": ("the embedded cluster", ("localcluster", "jsonschema_rs", "jsonpatch", "jsonpath")),
    "dashboard": ("the dashboard", ("jinja2",)),
}


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """What to install for a module that is not there; None for one that belongs to no extra."""
    top = (error.name or "").partition(".")[0]
    return next((f"{who} needs: pip install 'jobcommon[{e}]'" for e, (who, modules) in _EXTRAS.items() if top in modules), None)
