"""The options of ``jobcommon operator`` that frameworks bring: ``--<framework>-<field>`` for each of their own."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, fields, replace
from typing import Annotated, Any

import typer

from jobcommon.framework import Framework

Chosen = Mapping[str, Mapping[str, Any]]
"""By framework and field, what was chosen."""
ARGUMENT = "own_options"


def with_own_options(command: Callable[..., None], frameworks: Iterable[Framework]) -> Callable[..., None]:
    """`command`, whose argument `own_options` is a `Chosen`, as one that has an argument for each option instead.

    An option of the command's own goes before one that a framework would give the same name.
    """
    signature = inspect.signature(command)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    own = {name: found for name, *found in _arguments(frameworks) if name not in signature.parameters}

    def called(**values: Any) -> None:
        chosen: dict[str, dict[str, Any]] = {}
        for name, (framework, field, _) in own.items():
            chosen.setdefault(framework.name, {})[field.name] = values.pop(name)
        command(**values, **{ARGUMENT: chosen})

    parameters = [parameter for parameter in signature.parameters.values() if parameter.name != ARGUMENT]
    parameters += [
        inspect.Parameter(name, kind, default=default, annotation=_annotation(field, default))
        for name, (_, field, default) in own.items()
    ]
    called.__doc__ = command.__doc__
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # how inspect takes it
    return called


def configured(frameworks: Iterable[Framework], chosen: Chosen) -> tuple[Framework, ...]:
    """The frameworks with what was chosen for each."""
    return tuple(_configured(framework, chosen.get(framework.name)) for framework in frameworks)


def _configured(framework: Framework, values: Mapping[str, Any] | None) -> Framework:
    own: Any = framework.own_options
    return replace(framework, own_options=replace(own, **values)) if values else framework


def _arguments(frameworks: Iterable[Framework]) -> Iterable[tuple[str, Framework, Field[Any], Any]]:
    for framework in frameworks:
        own: Any = framework.own_options
        for field in fields(own) if own is not None else ():
            yield f"{framework.name}_{field.name}".replace("-", "_"), framework, field, getattr(own, field.name)


def _annotation(field: Field[Any], default: Any) -> Any:
    return Annotated[type(default), typer.Option(help=field.metadata.get("help"), metavar=field.metadata.get("metavar"))]
