"""The common job controller for Kubernetes training jobs.

The names for authors and operators of frameworks; ``jobcommon.controller`` has the parts of a controller. The names are
listed in ``__init__.pyi`` alone, as type checkers read them, and each is imported when it is first used: ``import jobcommon``
costs little, and what is pure never loads an HTTP client.
"""

try:
    import lazy_loader
except ImportError:
    # An image for training, where jobcommon is installed without its dependencies, for this function.
    from jobcommon.sdk.reporting import report_progress as report_progress

    def _attribute(name: str) -> object:
        raise AttributeError(f"jobcommon.{name} needs the dependencies of jobcommon: install it without --no-deps")

else:
    _attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name != "__version__":
        return _attribute(name)
    # Looked up when it is asked for: to find the distribution's metadata takes longer than everything else here.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(__name__)
    except PackageNotFoundError:
        return "unknown"
