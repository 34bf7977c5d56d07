"""The read-your-writes barrier: no decision on a view older than our own last write (rule R3, KEP-5647).

Per job (by UID) and resource it remembers the highest resourceVersion that a write of ours returned. A job is not
reconciled until the store of each such resource has reached that version, known from lists, events and bookmarks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jobcommon.api.version import is_older, is_valid

# Bookmarks arrive about once a minute, so a store that is behind for more than two minutes has most likely lost its watch.
STALL = 120.0


@dataclass(frozen=True, slots=True)
class _Write:
    version: str
    at: float


@dataclass(slots=True)
class Barrier:
    """The newest write of each job to each resource."""

    _writes: dict[str, dict[str, _Write]] = field(default_factory=dict)

    def __len__(self) -> int:
        """The number of jobs with recorded writes."""
        return len(self._writes)

    def wrote(self, uid: str, resource: str, version: str, now: float) -> None:
        """A create, update or patch for job `uid` returned `version`, received at `now` (monotonic seconds).

        Not for deletions, nor for the update that removes the last finalizer of a terminating object: the version which those
        return is not the version of the object's deletion. A version that cannot be compared is ignored.
        """
        if not is_valid(version):
            return
        writes = self._writes.setdefault(uid, {})
        if (last := writes.get(resource)) is None or is_older(last.version, version):
            writes[resource] = _Write(version, now)

    def behind(self, uid: str, store_versions: Mapping[str, str]) -> tuple[str, ...]:
        """The resources, sorted, whose store has not seen the last write of job `uid`.

        Queue the job again with back-off while there are any. A resource without a store, or with a version that cannot
        be compared, never blocks. A write that its store has seen is dropped: most jobs in a cluster are over, and their writes
        need not be remembered until they are deleted.
        """
        stale = self._stale(uid, store_versions, float("inf"))
        writes = self._writes.get(uid, {})
        for resource in [each for each in writes if each not in stale and is_valid(store_versions.get(each, ""))]:
            del writes[resource]
        if not writes:
            self.forget(uid)
        return stale

    def stalled(self, uid: str, store_versions: Mapping[str, str], now: float) -> tuple[str, ...]:
        """Those of `behind` whose write is `STALL` seconds old at `now` (monotonic): their informers must relist.

        The relist shows whether the watch was silent or the server's history was rewritten; see `reset`.
        """
        return self._stale(uid, store_versions, now - STALL)

    def reset(self, resource: str, version: str, requested_at: float) -> tuple[str, ...]:
        """Record a list of `resource` at `version`, requested at `requested_at` (monotonic seconds).

        A write that had returned before the request was sent, with a higher version, belongs to a history that no longer
        exists (etcd was restored from a backup). Such writes are dropped, else their jobs would wait for ever. Returns
        the UIDs of the affected jobs, sorted; their keys must be queued.
        """
        lost = [
            uid
            for uid, writes in self._writes.items()
            if (write := writes.get(resource)) and write.at < requested_at and is_older(version, write.version)
        ]
        for uid in lost:
            del self._writes[uid][resource]
            if not self._writes[uid]:
                del self._writes[uid]
        return tuple(sorted(lost))

    def forget(self, uid: str) -> None:
        """Drop everything about job `uid`."""
        self._writes.pop(uid, None)

    def _stale(self, uid: str, store_versions: Mapping[str, str], written_by: float) -> tuple[str, ...]:
        return tuple(
            resource
            for resource, write in sorted(self._writes.get(uid, {}).items())
            if write.at <= written_by and is_older(store_versions.get(resource, ""), write.version)
        )
