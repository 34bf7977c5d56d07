"""What the time of a job was spent on, as the store tells it: for comparison with the job's status (`status.timeSpent`).

The store has each condition when it is written, and each pod when it gets its node.
"""

from collections import defaultdict
from typing import Any

from jobcommon.framework import Framework
from localcluster.model import Change

_FIELDS = {"Suspended": "queued", "Stalled": "stalled", "Restarting": "restarting", "Running": "running"}


class TimeTruth:
    """Sees every change of the store; `seconds` are those of the first job until its end, by the fields of its status."""

    def __init__(self, framework: Framework) -> None:
        self._table = f"{framework.plural}.{framework.group}"
        self._placed_at: dict[str, float] = {}
        self._field = "pending"
        self._since = 0.0
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.status: dict[str, Any] = {}

    def see(self, at: float, change: Change) -> None:
        """A change, `at` seconds."""
        obj = change.item.obj
        if change.table == "pods":
            if obj["spec"].get("nodeName"):
                self._placed_at.setdefault(change.item.uid, at)
        elif change.table == self._table and (obj.get("status") or {}) != self.status:
            self.status = obj.get("status") or {}
            field = _field(self.status)
            if field != self._field:
                self._end(at)
                self._field, self._since = field, at

    def _end(self, at: float) -> None:
        if self._field == "pending":
            placed = min(max(max(self._placed_at.values(), default=at), self._since), at)
            self.seconds["queued"] += placed - self._since
            self.seconds["starting"] += at - placed
        elif self._field:
            self.seconds[self._field] += at - self._since


def _field(status: dict[str, Any]) -> str:
    """What a job with that status does; "" once it has finished."""
    holding = [one["type"] for one in status.get("conditions") or () if one["status"] == "True"]
    if "Succeeded" in holding or "Failed" in holding:
        return ""
    return next((field for kind, field in _FIELDS.items() if kind in holding), "pending")
