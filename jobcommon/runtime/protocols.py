"""What a driver is given: who carries plans out, and who is told what happens."""

from typing import Protocol

from jobcommon.controller.report import Report
from jobcommon.controller.result import Result, Work


class Executes(Protocol):
    """Carries plans out."""

    async def execute(self, work: Work) -> Result:
        """See `jobcommon.runtime.executor.Executor.execute`."""
        ...


class Observer(Protocol):
    """Is told what happens, for metrics and events. Must neither block nor raise."""

    def waited(self, seconds: float) -> None:
        """A key was ready for so long before it was taken up."""
        ...

    def finished(self, work: Work, report: Report, seconds: float) -> None:
        """A reconcile is over; its writes are done."""
        ...

    def failed(self) -> None:
        """A reconcile broke off with an exception."""
        ...

    def lapsed(self, count: int) -> None:
        """So many writes of ours were not seen in all the time that they were waited for."""
        ...
