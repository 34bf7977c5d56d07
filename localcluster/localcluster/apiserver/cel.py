"""CEL rules (`x-kubernetes-validations`), compiled once and evaluated over plain JSON.

The engine is cel-expr-python, which is imported when the first rule is compiled. Where it cannot be had, as on Alpine, no rule
is checked. It lacks the functions that Kubernetes adds to the language: a rule with one of them is skipped. Both are logged
once: a development server that accepts a little too much is of more use than one that refuses valid CRDs.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

_log = logging.getLogger(__name__)

#: The variables of a rule.
RULE = ("self", "oldSelf", "optionalOld")

# Library parts of the real server that this engine lacks: rules that use them are skipped, not refused.
_UNSUPPORTED = re.compile(
    r"\b(authorizer|url|isURL|ip|isIP|cidr|isCIDR|semver|isSemver|jsonpatch|quantity|isQuantity)\s*[.(]|\bformat\.\w+\("
    r"|\.(validate|isSorted|sum|min|max|find|findAll)\("
    r"|\.(all|exists|existsOne|transformList|transformMap|transformMapEntry)\(\s*\w+\s*,\s*\w+\s*,"
    r"|\.(indexOf|lastIndexOf)\("
)


class CelError(ValueError):
    """The expression does not compile; the message is the engine's."""


@dataclass(frozen=True)
class Failure:
    """Evaluation ended in an error, such as a missing key, instead of a value."""

    message: str


class Program:
    """One compiled expression."""

    def __init__(self, expression: Any, error: Any) -> None:
        self._expression = expression
        self._error = error

    def run(self, variables: Mapping[str, Any]) -> Any:
        """The expression's value as plain JSON, or a `Failure`."""
        try:
            value = self._expression.eval(data=variables)
        except (RuntimeError, TypeError, ValueError) as error:
            return Failure(str(error))
        if value.type() == self._error:
            return Failure(str(value.value()).removeprefix("NOT_FOUND: "))
        return value.plain_value()


@cache
def _engine() -> tuple[Any, Any] | None:
    """The engine's types and an environment with the variables of a rule; None where there is no engine."""
    try:
        from cel_expr_python import cel
        from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings
    except ImportError as error:
        _log.warning("CEL rules of CustomResourceDefinitions are not checked: %s (pip install cel-expr-python)", error)
        return None
    extensions = [
        ext_strings.ExtStrings(), ext_optional.ExtOptional(), ext_math.ExtMath(), ext_bindings.ExtBindings(),
        ext_encoders.ExtEncoders(),
    ]  # fmt: skip
    return cel.Type, cel.NewEnv(variables=dict.fromkeys(RULE, cel.Type.DYN), extensions=extensions)


@cache
def _skip(expression: str) -> None:
    _log.warning("CEL rule skipped (the engine lacks a function or macro that it uses): %s", expression)


@lru_cache(maxsize=4096)
def compile_expression(expression: str, *, optional_old: bool = False) -> Program | None:
    """The compiled expression, or None when it has to be skipped (which is logged once).

    With `optional_old`, `oldSelf` is an optional: the caller passes `optionalOld` as a list of none or one value.
    Raises `CelError` when the expression is wrong or gives another type than a bool.
    """
    found = _engine()
    if found is None:
        return None
    if "__" in expression:
        # Names of fields that CEL has as words of its own, or with a dot, a dash or a slash.
        _skip(expression)
        return None
    types, environment = found
    text = expression
    if optional_old:
        # Optionals cannot be passed in from Python, so one is made inside.
        text = f"cel.bind(oldSelf, size(optionalOld) > 0 ? optional.of(optionalOld[0]) : optional.none(), {expression})"
    try:
        compiled = environment.compile(text)
    except RuntimeError as error:
        if _UNSUPPORTED.search(expression):
            _skip(expression)
            return None
        raise CelError(f"compilation failed: {_readable(str(error))}") from error
    returned = compiled.return_type()
    if returned not in (types.BOOL, types.DYN):
        raise CelError("cel expression must evaluate to a bool")
    return Program(compiled, types.ERROR)


def _readable(message: str) -> str:
    return " ".join(message.removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]").split())
