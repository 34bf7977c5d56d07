"""The common job controller for Kubernetes training jobs.

The names for authors and operators of frameworks; ``jobcommon.controller`` has the parts of a controller. The names are
listed in ``__init__.pyi`` alone, as type checkers read them, and each is imported when it is first used: ``import jobcommon``
costs next to nothing, and what is pure never loads an HTTP client.
"""

from functools import cache
from importlib import import_module


@cache
def _homes() -> dict[str, str]:
    """By public name the module that defines it."""
    import ast
    import pkgutil

    stub = ast.parse(pkgutil.get_data(__name__, "__init__.pyi") or b"")
    return {alias.name: str(node.module) for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}


def __getattr__(name: str) -> object:
    if name == "__all__":
        return sorted(_homes())
    if name == "__version__":
        # Looked up when it is asked for: to find the distribution's metadata takes longer than everything else here.
        from importlib.metadata import PackageNotFoundError, version

        try:
            value: object = version(__name__)
        except PackageNotFoundError:
            value = "unknown"
    elif name.startswith("_") or name not in _homes():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        home = import_module(_homes()[name])
        value = getattr(home, name) if hasattr(home, name) else import_module(f"{home.__name__}.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_homes()})
