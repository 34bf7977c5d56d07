"""The JobController that owns Kueue's Workloads: its caches, and running jobs when the cluster takes a capability away."""

from dataclasses import replace

import pytest

from jobcommon.api.gang import COSCHEDULING, NATIVE, VOLCANO
from jobcommon.api.kueue import KUEUE_WORKLOADS, PREBUILT, QUEUE_LABEL
from jobcommon.client.errors import StatusError
from jobcommon.controller.job_state import COUNTS_DELAY
from jobcommon.controller.result import Work
from jobcommon.framework import Options
from jobcommon.reconcile.plan import Create, Delete
from jobcommon.testutil.builders import Manifest, Pod, job_manifest
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.kueue import admitted
from tests.controller.bench import Bench, created
from tests.controller.test_controller_gang import FORBIDDEN, MISSING, PODS, in_phase

OWN = replace(TEST_JOB, options=Options(kueue=True))
FLAVOR = {"metadata": {"name": "default", "uid": "default"}, "spec": {}}


def queued(**marks: str) -> Manifest:
    manifest = job_manifest(OWN, {"Worker": 2}, policy="ExitCode")
    manifest["metadata"]["labels"] = {QUEUE_LABEL: "team", **marks}
    return manifest


def written(works: list[Work]) -> list[str]:
    return [str(action) for work in works for action in work.plan.actions]


def made(works: list[Work], plural: str) -> Manifest:
    """The object of that plural as the server has it."""
    return next(created(a) for work in works for a in work.plan.actions if isinstance(a, Create) and a.plural == plural)


@pytest.fixture
def bench() -> Bench:
    bench = Bench(OWN)
    bench.sync()
    bench.say("resourceflavors", "ADDED", FLAVOR)
    return bench


def test_a_job_is_planned_when_its_workload_is_admitted_and_not_before(bench: Bench) -> None:
    bench.say("testjobs", "ADDED", queued())
    works = bench.settle()
    assert written(works) == [f"create {KUEUE_WORKLOADS}/testjob-demo-d2260"]
    bench.now += COUNTS_DELAY
    assert written(bench.settle()) == [], "what it waits for now is a message alone"
    assert bench.controller.queue.next_wakeup() is None, "no hot loop"
    bench.say(KUEUE_WORKLOADS, "MODIFIED", admitted(made(works, KUEUE_WORKLOADS)))
    assert [text for text in written(bench.settle()) if "create pods" in text] == PODS


def test_a_workload_without_an_owner_that_names_the_job_is_taken_over(bench: Bench) -> None:
    """Those of other jobs, or that others own, change nothing."""
    other = Bench(OWN)
    other.sync()
    other.say("testjobs", "ADDED", queued())
    theirs = made(other.settle(), KUEUE_WORKLOADS)
    theirs["metadata"] = {**theirs["metadata"], "name": "theirs", "ownerReferences": []}
    bench.say("testjobs", "ADDED", queued(**{PREBUILT: "theirs"}))
    assert written(bench.settle()) == []
    elsewhere = {
        **theirs["metadata"],
        "name": "x",
        "labels": {**theirs["metadata"]["labels"], "training.kubeflow.org/job-name": "x"},
    }
    bench.say(KUEUE_WORKLOADS, "ADDED", {**theirs, "metadata": elsewhere})
    assert bench.begin() is None
    bench.say(KUEUE_WORKLOADS, "ADDED", theirs)
    assert written([bench.work()]) == [f"update {KUEUE_WORKLOADS}/theirs"]


@pytest.mark.parametrize(
    ("error", "text"),
    [(FORBIDDEN, "may not list workloads.kueue.x-k8s.io; set the chart's value kueue: own"), (MISSING, "install Kueue")],
    ids=["rights", "definition"],
)
def test_without_workloads_a_new_job_waits_with_the_fix_until_they_come(error: StatusError, text: str) -> None:
    bench = Bench(OWN, **{KUEUE_WORKLOADS: error})
    bench.sync()
    bench.say("testjobs", "ADDED", queued())
    works = bench.settle()
    assert written(works) == [], "nothing is left behind"
    assert works[0].plan.status is not None
    assert text in works[0].plan.status.conditions[-1].message
    bench.now += 60
    bench.sync_one(KUEUE_WORKLOADS)
    assert written(bench.settle()) == [f"create {KUEUE_WORKLOADS}/testjob-demo-d2260"]


GANGS = {one.api_version: Options(gang=one) for one in (NATIVE, VOLCANO, COSCHEDULING)}
CHOICES = {**GANGS, "kueue": Options(kueue=True)}
LOSSES = [(of, "podgroups") for of in GANGS] + [(NATIVE.api_version, "workloads")]
LOSSES += [("kueue", KUEUE_WORKLOADS), ("kueue", "resourceflavors")]


@pytest.mark.parametrize("error", [MISSING, FORBIDDEN], ids=["definition", "rights"])
@pytest.mark.parametrize(("choice", "lost"), LOSSES)
def test_running_jobs_go_on_when_the_cluster_takes_a_capability_away(choice: str, lost: str, error: StatusError) -> None:
    options = CHOICES[choice]
    framework = replace(TEST_JOB, options=options)
    bench = Bench(framework)
    bench.sync()
    bench.say("testjobs", "ADDED", queued())
    works = bench.settle()
    if options.kueue:
        bench.say("resourceflavors", "ADDED", FLAVOR)
        bench.say(KUEUE_WORKLOADS, "MODIFIED", admitted(made(works, KUEUE_WORKLOADS)))
    elif options.gang == VOLCANO:
        bench.say("podgroups", "MODIFIED", in_phase(made(works, "podgroups"), "Inqueue"))
    works += bench.settle()
    pods = [created(a) for work in works for a in work.plan.actions if isinstance(a, Create) and a.plural == "pods"]
    assert len(pods) == 2
    for pod in pods:
        bench.say("pods", "MODIFIED", Pod.created(framework, pod).running().raw)
    bench.settle()
    bench.refuse(lost, error)
    bench.controller.resync()
    after = bench.settle()
    bench.say("pods", "MODIFIED", Pod.created(framework, pods[1]).running().failed(137).raw)
    after += bench.settle()
    deleted = {action.name for work in after for action in work.plan.actions if isinstance(action, Delete)}
    assert deleted <= {"demo-worker-1"}
    status = next(work.plan.status for work in reversed(after) if work.plan.status is not None)
    assert (status.restarts, status.has("Suspended"), status.has("Failed")) == (1, False, False)
