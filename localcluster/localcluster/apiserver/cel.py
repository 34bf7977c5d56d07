"""CEL rules (`x-kubernetes-validations`), compiled once and evaluated over plain JSON.

The engine is cel-expr-python. Where it lacks a library function that the real server has, a rule is skipped and a warning is
logged once: a development server that accepts a little too much is of more use than one that refuses valid CRDs.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from cel_expr_python import cel as engine
from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings

from localcluster.apiserver import cel_functions

_log = logging.getLogger(__name__)

#: The variables of a rule.
RULE = ("self", "oldSelf", "optionalOld")

# Library parts of the real server that this engine cannot be given: rules that use them are skipped, not refused.
_UNSUPPORTED = re.compile(
    r"\b(authorizer|url|isURL|ip|isIP|cidr|isCIDR|semver|isSemver|jsonpatch)\s*[.(]|\bformat\.\w+\(|\.validate\("
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

    def __init__(self, expression: Any) -> None:
        self._expression = expression

    def run(self, variables: Mapping[str, Any]) -> Any:
        """The expression's value as plain JSON, or a `Failure`."""
        try:
            value = self._expression.eval(data=variables)
        except (RuntimeError, TypeError, ValueError) as error:
            return Failure(str(error))
        if value.type() == engine.Type.ERROR:
            return Failure(str(value.value()).removeprefix("NOT_FOUND: "))
        return value.plain_value()


@cache
def _environment() -> Any:
    variables = dict.fromkeys(RULE, engine.Type.DYN)
    extensions = [
        ext_strings.ExtStrings(),
        ext_optional.ExtOptional(),
        ext_math.ExtMath(),
        ext_bindings.ExtBindings(),
        ext_encoders.ExtEncoders(),
        engine.CelExtension("kubernetes", cel_functions.declarations()),
    ]
    return engine.NewEnv(variables=variables, extensions=extensions)


@cache
def _skip(expression: str) -> None:
    _log.warning("CEL rule skipped (the engine lacks a function or macro it uses): %s", expression)


@lru_cache(maxsize=4096)
def compile_expression(expression: str, *, optional_old: bool = False, kind: str = "BOOL") -> Program | None:
    """The compiled expression, or None when it has to be skipped (which is logged once).

    With `optional_old`, `oldSelf` is an optional: the caller passes `optionalOld` as a list of none or one value.
    Raises `CelError` when the expression is wrong or gives another type than `kind` (BOOL or STRING).
    """
    text = expression
    if optional_old:
        # Optionals cannot be passed in from Python, so one is made inside.
        text = f"cel.bind(oldSelf, size(optionalOld) > 0 ? optional.of(optionalOld[0]) : optional.none(), {expression})"
    try:
        compiled = _environment().compile(text)
    except RuntimeError as error:
        if _UNSUPPORTED.search(expression):
            _skip(expression)
            return None
        raise CelError(f"compilation failed: {_readable(str(error))}") from error
    returned = compiled.return_type()
    if returned not in (getattr(engine.Type, kind), engine.Type.DYN):
        raise CelError(f"cel expression must evaluate to a {kind.lower()}")
    return Program(compiled)


def _readable(message: str) -> str:
    return " ".join(message.removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]").split())
