"""Malformed and hostile jobs, and frameworks that misbehave, among healthy jobs on a server whose definitions have no rules.

Each bad job comes to the end that is its own, in silence, and the healthy ones do as if they were alone.
What the decision alone makes of a bad spec is shown by tests/reconcile/test_poison.py.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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
from jobcommon.testutil.frameworks import path_of
from jobcommon.testutil.sim.scenario import DEFINITIONS, DONE, FOREVER, Scenario, UserStep, ask
from jobcommon.testutil.sim.simulation import Simulation
from localcluster import ApiServer

pytestmark = pytest.mark.no_cover
#: At a job that fails: a refusal is learnt by one, and what was made for the job goes, thing by thing.
MOST_LOOKS = 16
#: A back-off of 5 ms that doubles up to a minute: so many looks fit into the time of a run, those for events included.
SECONDS, TRIES = 300.0, 40
HEALTHY: Mapping[str, Mapping[str, int]] = {
    TF.kind: {"Worker": 2}, PYTORCH.kind: {"Master": 1, "Worker": 1}, MPI.kind: {"Launcher": 1, "Worker": 1},
    MXNET.kind: {"Scheduler": 1, "Worker": 1},
}  # fmt: skip
FRAMEWORKS = (TF, PYTORCH, MPI, MXNET)
Rows = Mapping[str, tuple[Framework, str, Mapping[str, Any]]]


RUNS = "Succeeded"
IGNORED = ""


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
#: The framework; how the job ends: it runs as if nothing were wrong with it, it is ignored, or what an invalid one says; the
#: changes of a healthy job. ``status`` is written before the operator sees it, ``beside`` are labels of a pod that claims it.
BAD_JOBS: Rows = {
    "a template that is text": (PYTORCH, "must be an object", {"SPECS.Master.template": "x"}),
    "a name of 200 characters": (MXNET, "use up to 63", {"metadata.name": "p1" + "x" * 198}),
    "a run policy that is a list": (MPI, "must be an object", {"spec.runPolicy": []}),
    "two containers of one name": (PYTORCH, "Duplicate value", {f"{W}.spec.containers": TWICE}),
    "a label value of 70 characters": (TF, "must be no more than 63", {f"{W}.metadata": {"labels": {"team": "x" * 70}}}),
    "annotations of 300 KiB": (PYTORCH, "more than 262144 bytes", {f"{W}.metadata": {"annotations": {"a": "x" * 300 * 1024}}}),
    "a request over its limit": (MXNET, "less than or equal to cpu limit", {f"{W}.spec.containers.0.resources": OVER}),
    "a type in lower case": (TF, RUNS, {"SPECS.worker": replica_spec(TF), "SPECS.Worker": GONE}),
    "a pod of index 1.0 claims it": (
        PYTORCH, RUNS, {"beside": {labels.REPLICA_TYPE: "worker", labels.REPLICA_INDEX: "1.0"}}),
    "a pod of index 10¹² claims it": (
        MXNET, RUNS, {"beside": {labels.REPLICA_TYPE: "worker", labels.REPLICA_INDEX: str(10**12)}}),
    "a template with reserved metadata": (PYTORCH, RUNS, {f"{W}.metadata": RESERVED}),
    "hostile text": (TF, RUNS, {f"{W}.spec.containers.0.args": [HOSTILE]}),
    "a status of garbage": (MXNET, RUNS, {"status": FORGED}),
    "a start in the year 9999": (PYTORCH, RUNS, {"status": {"startTime": "9999-12-31T23:59:59Z"}}),
    "managed by another controller": (PYTORCH, IGNORED, {"spec.runPolicy.managedBy": "example.com/other"}),
}  # fmt: skip


def take_anything(server: ApiServer, framework: Framework) -> None:
    """Put a definition in the place of the present one that takes anything for a job's spec and status."""
    path = f"{DEFINITIONS}/{framework.plural}.{framework.group}"
    stored, anything = ask(server, "GET", path), {"x-kubernetes-preserve-unknown-fields": True}
    for version in stored["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}
        version["subresources"] = {"status": {}}
    ask(server, "PUT", path, stored)


def submit(framework: Framework, manifest: Manifest, server: ApiServer) -> None:
    """Create the job with its status, and the pod beside it."""
    name, status, beside = manifest["metadata"]["name"], manifest.get("status"), manifest.get("beside")
    job = ask(server, "POST", path_of(framework), manifest)
    if status is not None:
        ask(server, "PUT", f"{path_of(framework, name)}/status", {**job, "status": status})
    if beside is not None:
        owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": name, "uid": job["metadata"]["uid"]}
        marks = {labels.OPERATOR_NAME: framework.operator_name, labels.JOB_NAME: name, **beside}
        metadata = {"name": f"{name}-stranger", "labels": marks, "ownerReferences": [{**owner, "controller": True}]}
        spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "any"}]}
        ask(server, "POST", path_of("pods"), {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


class Trial:
    """One run. The bad jobs are p0, p1 and so on, the healthy ones h0, h1 and so on."""

    def __init__(self, bad: Rows, frameworks: Sequence[Framework] = FRAMEWORKS) -> None:
        self.healthy = {f"h{n}": framework for n, framework in enumerate(frameworks)}
        self.bad = {row: healthy(framework, f"p{n}") for n, (row, (framework, _, _)) in enumerate(bad.items())}
        for row, (framework, _, changes) in bad.items():
            for path, value in changes.items():
                put(self.bad[row], path.replace("SPECS", f"spec.{framework.replica_specs}"), value)
        steps = [UserStep(partial(take_anything, framework=framework)) for framework in frameworks]
        steps += [UserStep(partial(submit, bad[row][0], manifest)) for row, manifest in self.bad.items()]
        jobs = tuple(healthy(framework, name) for name, framework in self.healthy.items())
        of_mpi = [job["metadata"]["name"] for job in (*jobs, *self.bad.values()) if job["kind"] == MPI.kind]
        ends = {**{f"{name}-worker-*": FOREVER for name in of_mpi}, "*": DONE}
        simulation = Simulation(Scenario(tuple(frameworks), jobs, ends, tuple(steps), horizon=SECONDS), 0, ())
        self.run, self.server = simulation.result(), simulation.server
        self.looks: Counter[str] = Counter()
        for (_, key, _), count in self.run.keys.items():
            self.looks[key.partition("/")[2]] += count

    def status(self, framework: Framework, name: str) -> JobStatus:
        """What is on record of a job."""
        return read_status(ask(self.server, "GET", path_of(framework, name)).get("status"))

    def events(self, name: str) -> list[str]:
        """The reasons of the events on an object."""
        found = [event.obj for event in self.server.storage.table("events").items()]
        return [str(event["reason"]) for event in found if event["involvedObject"]["name"] == name]

    def unlike_healthy(self) -> Iterator[str]:
        """What is not as it would be without bad jobs."""
        for name, framework in self.healthy.items():
            if not self.status(framework, name).has(ConditionType.SUCCEEDED):
                yield f"{name} has not succeeded"
        yield from (f"{pod} ran {runs} times" for pod, runs in self.run.runs.items() if runs > 1)
        yield from self.run.violations


@pytest.fixture(scope="module")
def trial() -> Trial:
    return Trial(BAD_JOBS)


@pytest.mark.parametrize("row", BAD_JOBS)
def test_a_bad_job_comes_to_the_end_that_is_its_own(trial: Trial, row: str) -> None:
    (framework, wanted, changes), name = BAD_JOBS[row], trial.bad[row]["metadata"]["name"]
    conditions = trial.status(framework, name).conditions
    written = [w for w in trial.run.trace if w.path.endswith(f"/{name}/status") and w.status == 200]
    assert ("UnknownPod" in trial.events(name)) == ("beside" in changes)
    if wanted == IGNORED:
        assert (conditions, written) == ([], [])
    elif wanted == RUNS:
        assert conditions[-1].type == ConditionType.SUCCEEDED
    else:
        assert (conditions[-1].type, conditions[-1].reason) == (ConditionType.FAILED, INVALID_SPEC)
        assert wanted in (conditions[-1].message or "")
        assert len(written) <= 3
        assert trial.looks[name] <= MOST_LOOKS


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
    found = Trial({"broken": (framework, RUNS, {"spec.bad": True})}, (framework,))
    assert list(found.unlike_healthy()) == []
    assert found.looks["p0"] <= TRIES
    assert not any("the operator" in error for error in found.run.errors)
    if isinstance(bad, BrokenError):
        assert found.looks["p0"] >= 2
        assert any("it is broken" in error for error in found.run.errors)
        assert "InternalError" in found.events("p0")
