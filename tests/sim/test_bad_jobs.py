"""Malformed and hostile jobs, and frameworks that misbehave, among healthy jobs on a server whose definitions have no rules.

Each bad job comes to the end that is its own, in silence, and the healthy ones do as if they were alone.
What the decision alone makes of a bad spec is shown by tests/reconcile/test_poison.py.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial
from typing import Any

import pytest

from jobcommon.api import labels
from jobcommon.api.reasons import INVALID_SPEC
from jobcommon.api.status import ConditionType, JobStatus, read_status
from jobcommon.framework import Framework, Job
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.testutil.builders import GONE, Manifest, condition, job_manifest, put, replica_spec
from jobcommon.testutil.sim.scenario import DEFINITIONS, DONE, FOREVER, Scenario, UserStep, ask, path_of
from jobcommon.testutil.sim.simulation import Run, Simulation
from localcluster import ApiServer

pytestmark = pytest.mark.no_cover
#: Plans of a job that fails: a refusal is learnt by one, and what was made for the job goes, thing by thing.
MOST_PLANS = 16
#: A back-off of 5 ms that doubles up to a minute: so many looks fit into the time of a run, those for events included.
SECONDS, TRIES = 300.0, 40
HEALTHY: Mapping[str, Mapping[str, int]] = {
    TF.kind: {"Worker": 2}, PYTORCH.kind: {"Master": 1, "Worker": 1}, MPI.kind: {"Launcher": 1, "Worker": 1},
    MXNET.kind: {"Scheduler": 1, "Worker": 1},
}  # fmt: skip
FRAMEWORKS = (TF, PYTORCH, MPI, MXNET)


class Fate(Enum):
    INVALID = auto()  # Failed with InvalidSpec in its first status
    REFUSED = auto()  # the same once the API server has refused what it needs
    RUNS = auto()  # Succeeded, as if nothing were wrong with it
    IGNORED = auto()  # left alone, without a status


@dataclass(frozen=True)
class BadJob:
    """One of them. `changes` are made to a healthy job, ``SPECS`` being its replica specs; `says` is in its last condition.

    `named` turns the job's name into an invalid one. `status` is written to the job before the operator sees it, and `beside`
    are labels of a pod that claims the job as its controller, of which an event UnknownPod tells.
    """

    framework: Framework
    fate: Fate
    changes: Mapping[str, Any]
    says: str = ""
    named: str = "{}"
    status: Any = None
    beside: Mapping[str, str] | None = None

    def manifest(self, number: int) -> Manifest:
        """The job, whose name is made of its number."""
        found = healthy(self.framework, self.named.format(f"p{number}"))
        for path, value in self.changes.items():
            put(found, path.replace("SPECS", f"spec.{self.framework.replica_specs}"), value)
        return found


def healthy(framework: Framework, name: str) -> Manifest:
    """A job with nothing wrong."""
    made = job_manifest(framework, HEALTHY[framework.kind])
    return {**made, "metadata": {"name": name, "namespace": "default", "labels": {}, "annotations": {}}}


RESERVED = {
    "name": "another", "namespace": "kube-system", "uid": "made-up", "generateName": "x-",
    "finalizers": ["example.com/never"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "boss", "uid": "0", "controller": True}],
    "labels": {labels.JOB_NAME: "another", labels.REPLICA_INDEX: "7", labels.OPERATOR_NAME: "another-operator"},
}  # fmt: skip
FORGED = {
    "conditions": [condition("Dancing"), None, 3, {"type": 7}, condition("Running", False)],
    "replicaStatuses": {"Worker": {"active": "many", "succeededIndexes": "0-,x,9-1,-3,99999999999999999999,1-1000000000"}},
    "countedPods": [1, None], "restarts": -7, "startTime": "9999-12-31T23:59:59Z",
}  # fmt: skip
HOSTILE = "$(HOME) %s %d {0} {x} \"a\\c' \u2028 ünïcödé ☃"
W = "SPECS.Worker.template"
TWICE = [{"name": "pytorch", "image": "any"}] * 2
OVER = {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}
BAD_JOBS: dict[str, BadJob] = {
    "a template that is text": BadJob(PYTORCH, Fate.INVALID, {"SPECS.Master.template": "x"}, "must be an object"),
    "a name of 200 characters": BadJob(MXNET, Fate.INVALID, {}, "use up to 63", named="{:x<200}"),
    "a run policy that is a list": BadJob(MPI, Fate.INVALID, {"spec.runPolicy": []}, "must be an object"),
    "two containers of one name": BadJob(PYTORCH, Fate.REFUSED, {f"{W}.spec.containers": TWICE}, "Duplicate value"),
    "a label value of 70 characters": BadJob(
        TF, Fate.REFUSED, {f"{W}.metadata": {"labels": {"team": "x" * 70}}}, "must be no more than 63"),
    "annotations of 300 KiB": BadJob(
        PYTORCH, Fate.REFUSED, {f"{W}.metadata": {"annotations": {"a": "x" * 300 * 1024}}}, "may have 262,144"),
    "a request over its limit": BadJob(
        MXNET, Fate.REFUSED, {f"{W}.spec.containers.0.resources": OVER}, "must be less than or equal to cpu limit"),
    "a type in lower case": BadJob(TF, Fate.RUNS, {"SPECS.worker": replica_spec(TF), "SPECS.Worker": GONE}),
    "a pod of index 1.0 claims it": BadJob(
        PYTORCH, Fate.RUNS, {}, beside={labels.REPLICA_TYPE: "worker", labels.REPLICA_INDEX: "1.0"}),
    "a pod of index 10¹² claims it": BadJob(
        MXNET, Fate.RUNS, {}, beside={labels.REPLICA_TYPE: "worker", labels.REPLICA_INDEX: str(10**12)}),
    "a template with reserved metadata": BadJob(PYTORCH, Fate.RUNS, {f"{W}.metadata": RESERVED}),
    "hostile text": BadJob(TF, Fate.RUNS, {f"{W}.spec.containers.0.args": [HOSTILE]}),
    "a status of garbage": BadJob(MXNET, Fate.RUNS, {}, status=FORGED),
    "a start in the year 9999": BadJob(PYTORCH, Fate.RUNS, {}, status={"startTime": "9999-12-31T23:59:59Z"}),
    "managed by another controller": BadJob(PYTORCH, Fate.IGNORED, {"spec.runPolicy.managedBy": "example.com/other"}),
}  # fmt: skip


def take_anything(server: ApiServer, framework: Framework) -> None:
    """Put a definition in the place of the present one that takes anything for a job's spec and status."""
    path = f"{DEFINITIONS}/{framework.plural}.{framework.group}"
    stored, anything = ask(server, "GET", path), {"x-kubernetes-preserve-unknown-fields": True}
    for version in stored["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}
        version["subresources"] = {"status": {}}
    ask(server, "PUT", path, stored)


class Trial:
    """One run. The bad jobs are p0, p1 and so on, or what these names are made into; the healthy ones h0, h1 and so on."""

    def __init__(self, bad: Sequence[BadJob], frameworks: Sequence[Framework] = FRAMEWORKS) -> None:
        self.bad, self.frameworks = bad, frameworks
        self.healthy = [f"h{n}" for n in range(len(frameworks))]
        self.manifests = [job.manifest(n) for n, job in enumerate(bad)]
        steps = [UserStep(partial(take_anything, framework=f)) for f in frameworks]
        steps += [UserStep(partial(self._submit, n)) for n in range(len(bad))]
        jobs = tuple(healthy(framework, name) for name, framework in zip(self.healthy, frameworks, strict=True))
        of_mpi = [m["metadata"]["name"] for m in (*jobs, *self.manifests) if m["kind"] == MPI.kind]
        ends = {**{f"{name}-worker-*": FOREVER for name in of_mpi}, "*": DONE}
        scenario = Scenario("bad-jobs", tuple(frameworks), jobs, ends, tuple(steps), horizon=SECONDS)
        simulation = Simulation(scenario, 0, ())
        self.run: Run = simulation.result()
        self.plans: Counter[str] = Counter()
        for (_, key, _), count in self.run.keys.items():
            self.plans[key.partition("/")[2]] += count
        self.server = simulation.server

    def _submit(self, number: int, server: ApiServer) -> None:
        bad, manifest = self.bad[number], self.manifests[number]
        job = ask(server, "POST", path_of(bad.framework), manifest)
        if bad.status is not None:
            path = path_of(bad.framework, manifest["metadata"]["name"])
            ask(server, "PUT", f"{path}/status", {**job, "status": bad.status})
        if bad.beside is not None:
            name, owner = job["metadata"]["name"], {key: job[key] for key in ("apiVersion", "kind")}
            own = {**owner, "name": name, "uid": job["metadata"]["uid"], "controller": True}
            marks = {labels.OPERATOR_NAME: bad.framework.operator_name, labels.JOB_NAME: name, **bad.beside}
            metadata = {"name": f"{name}-stranger", "labels": marks, "ownerReferences": [own]}
            spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "any"}]}
            ask(server, "POST", path_of("pods"), {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def status(self, framework: Framework, name: str) -> JobStatus:
        """What is on record of a job."""
        return read_status(ask(self.server, "GET", path_of(framework, name)).get("status"))

    def events(self, name: str) -> list[str]:
        """The reasons of the events on an object."""
        found = [event.obj for event in self.server.storage.table("events").items()]
        return [str(event["reason"]) for event in found if event["involvedObject"]["name"] == name]

    def unlike_healthy(self) -> Iterator[str]:
        """What is not as it would be without bad jobs."""
        for name, framework in zip(self.healthy, self.frameworks, strict=True):
            if not self.status(framework, name).has(ConditionType.SUCCEEDED):
                yield f"{name} has not succeeded"
        yield from (f"{pod} ran {runs} times" for pod, runs in self.run.runs.items() if runs > 1)
        yield from self.run.violations


@pytest.fixture(scope="module")
def trial() -> Trial:
    return Trial([*BAD_JOBS.values()])


@pytest.mark.parametrize("number", range(len(BAD_JOBS)), ids=BAD_JOBS)
def test_a_bad_job_comes_to_the_end_that_is_its_own(trial: Trial, number: int) -> None:
    bad, name = trial.bad[number], trial.manifests[number]["metadata"]["name"]
    status, plans = trial.status(bad.framework, name), trial.plans[name]
    written = [w for w in trial.run.trace if w.path.endswith(f"/{name}/status") and w.status == 200]
    last = status.conditions[-1] if status.conditions else None
    match bad.fate:
        case Fate.IGNORED:
            assert (last, written) == (None, [])
        case Fate.RUNS:
            assert last is not None
            assert last.type == ConditionType.SUCCEEDED
            assert ("UnknownPod" in trial.events(name)) == (bad.beside is not None)
        case _:
            assert last is not None
            assert (last.type, last.reason) == (ConditionType.FAILED, INVALID_SPEC)
            assert bad.says in (last.message or "")
            assert len(written) <= (1 if bad.fate is Fate.INVALID else 3)
            assert plans <= MOST_PLANS


def test_the_healthy_jobs_do_as_if_they_were_alone_and_then_there_is_rest(trial: Trial) -> None:
    assert list(trial.unlike_healthy()) == []
    assert trial.run.errors == []
    assert trial.run.writes_at_rest == 0
    assert trial.run.leaked == []


# -- a framework's function that raises or returns garbage affects its own job and no other -----------------------------------

#: Those that a job comes to whose pods all succeed.
HOOKS = ("env", "outcome", "is_master", "upgrade", "validate", "shape_pod", "companions", "may_create", "index_offsets")


class BrokenError(Exception):
    """What a hook raises."""


@pytest.mark.parametrize(("hook", "bad"), [*((hook, {"a": object()}) for hook in HOOKS), ("env", BrokenError("it is broken"))])
def test_a_broken_hook_harms_no_other_job_and_is_tried_again_with_growing_pauses(hook: str, bad: Any) -> None:
    """It is broken for the job p0 alone."""
    usual: Any = getattr(MPI, hook)

    def broken(subject: Any, *rest: Any) -> Any:
        if not (subject.name == "p0" if isinstance(subject, Job) else subject.get("bad")):
            return usual(subject, *rest)
        if isinstance(bad, BrokenError):
            raise bad
        return bad

    framework: Framework = replace(MPI, **{hook: broken})
    found = Trial([BadJob(framework, Fate.RUNS, {"spec.bad": True})], (framework,))
    assert list(found.unlike_healthy()) == []
    assert found.plans["p0"] <= TRIES
    assert not any("the operator" in error for error in found.run.errors)
    if isinstance(bad, BrokenError):
        assert found.plans["p0"] >= 2
        assert any("it is broken" in error for error in found.run.errors)
        assert "InternalError" in found.events("p0")
