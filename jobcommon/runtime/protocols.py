"""The interfaces that a driver calls: the executor of plans, and the reporter of reconciles."""

from typing import Protocol

from jobcommon.controller.report import Report
from jobcommon.controller.result import Result, Work


class Executes(Protocol):
    """Carries plans out."""

    async def execute(self, work: Work) -> Result:
        """See `jobcommon.runtime.executor.Executor.execute`."""
        ...


class Reporter(Protocol):
    """Called on each event of a driver, for metrics and events. Must neither block nor raise."""

    def waited(self, seconds: float) -> None:
        """A key was ready for `seconds` before its reconcile began."""
        ...

    def finished(self, work: Work, report: Report, seconds: float) -> None:
        """A reconcile and its writes are done; it took `seconds`."""
        ...

    def failed(self) -> None:
        """A reconcile failed with an exception."""
        ...

    def lapsed(self, count: int) -> None:
        """`count` expectations have lapsed."""
        ...
