"""A user who writes what only an API server without our schema lets in, and puts it right again.

An older release, or the reference, may have left a definition without our rules: Helm never upgrades one. The edit gives any
field of the spec, whether the job has it or not, a value that is no good there.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import reduce
from typing import Any

from jobcommon.api.template import mapping_of
from jobcommon.client.request import JSON
from jobcommon.framework import Framework
from jobcommon.testutil.sim import definitions, user
from localcluster import ApiServer
from localcluster.model import Item

Obj = dict[str, Any]
Path = tuple[str, ...]
_BAD: tuple[Any, ...] = ("nonsense", -1, 10**9, [], {})
#: What a decision reads of a pod's spec, if only of jobs with restartMethod Auto or nodeLossSeconds.
_OF_PODS = (
    (), ("containers",), ("terminationGracePeriodSeconds",), ("tolerations",), ("affinity",), ("affinity", "nodeAffinity"),
)  # fmt: skip
#: Those of `_BAD` that are good there after all.
_GOOD: Mapping[str, Any] = {
    "terminationGracePeriodSeconds": 10**9, "tolerations": [], "affinity": {}, "nodeAffinity": {}, "overrides": [],
    "label": "nonsense",
}  # fmt: skip
#: Instead of these: the present definition lets any object in there.
_OVERRIDES = [{"indices": [0], "template": {"spec": {"containers": ["nonsense"]}}}]


class BadEdit:
    """One edit of a job that has begun, while its definition has no rules; `choice` says of which job, field and value."""

    def __init__(self, server: ApiServer, frameworks: tuple[Framework, ...], choice: int, *, of_replicas: bool) -> None:
        begun = [(f, job) for f in frameworks for job in server.storage.table(f"{f.plural}.{f.group}").sorted() if _runs(job)]
        self.made = False
        if not begun:
            return
        self._framework, job = begun[choice % len(begun)]
        self._name = job.name
        paths = list(fields(self._framework, job.obj["spec"], of_replicas=of_replicas))
        path = paths[choice // len(_BAD) % len(paths)]
        # Of what is not there at all, the whole is taken away again.
        there = next(n for n in range(len(path)) if n + 1 == len(path) or _at(job.obj["spec"], path[: n + 1]) is None)
        self._path, below = path[: there + 1], path[there + 1 :]
        bad = _BAD[choice % len(_BAD)]
        if bad == _GOOD.get(path[-1]):
            bad = _OVERRIDES if path[-1] == "overrides" else next(other for other in _BAD if other != bad)
        self._bad = reduce(lambda value, key: {key: value}, reversed(below), bad)
        self._before = deepcopy(_at(job.obj["spec"], self._path))
        definitions.loosen(server, self._framework)
        # The paths of the scale subresource have rules of their own, which the definition keeps.
        with suppress(user.RefusedError):
            self._put(server, self._bad)
            self.made = True

    def __str__(self) -> str:
        return f"{self._name}: {'.'.join(self._path)} {self._bad!r}" if self.made else "nothing"

    def undo(self, server: ApiServer) -> None:
        """Put it right, without what others have written there since, and then the definition."""
        if not self.made:
            return
        now = self._spec(server)
        if now is not None:
            value = _at(now, self._path)
            kept = value if value != self._bad and isinstance(value, dict) else {}
            self._put(server, _merged(self._before, kept))
        definitions.restore(server, self._framework)

    def _spec(self, server: ApiServer) -> Obj | None:
        job = user.job_of(server, self._framework, self._name)
        return job.obj["spec"] if job is not None else None

    def _put(self, server: ApiServer, value: Any) -> None:
        job = user.job_of(server, self._framework, self._name)
        assert job is not None
        spec = deepcopy(job.obj["spec"])
        at = spec
        for key in self._path[:-1]:
            at = at[key]
        if value is None:
            at.pop(self._path[-1], None)
        else:
            at[self._path[-1]] = value
        whole = {"apiVersion": self._framework.api_version, "kind": self._framework.kind, **job.obj, "spec": spec}
        user.ask(server, "PUT", user.path_of(self._framework, self._name), whole, JSON)


def fields(framework: Framework, spec: Mapping[str, Any], *, of_replicas: bool) -> Iterator[Path]:
    """The fields of the stored version's spec, down to the pod templates: those of the replicas, or the others."""
    version = next(one for one in user.definition_of(framework)["spec"]["versions"] if one["storage"])
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for name, inner in schema["properties"].items():
        if (name == framework.replica_specs) == of_replicas:
            yield from _below((name,), inner, tuple(mapping_of(spec.get(framework.replica_specs))))


def _below(path: Path, schema: Obj, types: Path) -> Iterator[Path]:
    yield path
    if path[-1] == "template":
        yield (*path, "metadata")
        yield from ((*path, "spec", *below) for below in _OF_PODS)
        return
    for name, inner in (schema.get("properties") or {}).items():
        yield from _below((*path, name), inner, types)
    if isinstance(inner := schema.get("additionalProperties"), dict):
        for name in types if len(path) == 1 else ("cpu",):
            yield from _below((*path, name), inner, types)


def _runs(job: Item) -> bool:
    """Whether the job has begun and goes on: a spec with errors fails one that has not."""
    status, gone = job.obj.get("status") or {}, "deletionTimestamp" in job.obj["metadata"]
    return bool(status.get("startTime")) and not status.get("completionTime") and not gone


def _at(spec: Mapping[str, Any], path: Path) -> Any:
    found: Any = spec
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _merged(before: Any, since: Obj) -> Any:
    """What there was before, with what has been written below it since."""
    if not since:
        return before
    if not isinstance(before, dict):
        return since
    return {
        **before,
        **{key: _merged(before.get(key), value) if isinstance(value, dict) else value for key, value in since.items()},
    }
