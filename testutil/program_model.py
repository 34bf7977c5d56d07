"""The program of a job as tests play it, and what has happened to the job, whatever the operator has made of it."""

from dataclasses import dataclass


@dataclass
class Truth:
    """What has happened to the job, counted by who did it."""

    by_others: int = 0
    failed_runs: int = 0
    incidents: int = 0
    permanent: bool = False
    unseen: bool = False
    _latest: tuple[float, frozenset[str]] = (0.0, frozenset())

    def failed(self, now: float, name: str, *, permanent: bool = False) -> None:
        """The program of a replica has failed. What fails within a second, before the operator looks, is one incident.

        `permanent`: that ends the job, unless another end that the operator has not seen either came before.
        """
        self.permanent |= permanent and not self.unseen
        self.failed_runs += 1
        at, together = self._latest
        if not self.unseen or now > at + 1 or name in together:
            self.incidents += 1
            at, together = now, frozenset()
        self._latest, self.unseen = (at, together | {name}), True


@dataclass
class Program:
    """A training that reports: it loads, makes a step every few seconds, and may hang."""

    loading_seconds: float = 90.0
    step: int = 0
    loaded_at: float = 0.0
    hung_since: float | None = None
    last_report: float | None = None
    reports_in_run: int = 0

    def starts_over(self, now: float) -> None:
        """A run begins from the last checkpoint."""
        self.loaded_at, self.hung_since, self.reports_in_run = now + self.loading_seconds, None, 0
        self.step = max(self.step - 1, 0)
