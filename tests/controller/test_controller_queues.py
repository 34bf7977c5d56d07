"""The JobController with a gang scheduler or Kueue: its optional caches, and which jobs are planned when they change."""

from dataclasses import replace

import pytest

from jobcommon.api.gang import COSCHEDULING, NATIVE, VOLCANO, gang_scheduler
from jobcommon.api.kueue import KUEUE_WORKLOADS, PREBUILT, QUEUE_LABEL
from jobcommon.cache.step import Fetch, Stream
from jobcommon.client.errors import StatusError
from jobcommon.controller.job_controller import JobController
from jobcommon.controller.job_state import COUNTS_DELAY
from jobcommon.controller.result import Work
from jobcommon.framework import Framework, Options
from jobcommon.reconcile.plan import Create, Delete
from jobcommon.testutil.builders import Manifest, Pod, job_manifest
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.kueue import admitted
from jobcommon.testutil.plans import status_of
from tests.controller.bench import Bench, created

GANG: Framework = replace(TEST_JOB, options=Options(gang=VOLCANO))
MISSING = StatusError(404, "NotFound", "the server could not find the requested resource")
FORBIDDEN = StatusError(403, "Forbidden", "not in your role")


def in_phase(group: Manifest, phase: str) -> Manifest:
    """The PodGroup as the scheduler leaves it."""
    return {**group, "status": {"phase": phase}}


def planned(bench: Bench) -> list[str]:
    return [str(action) for action in bench.work().plan.actions]


@pytest.fixture
def manifest() -> Manifest:
    return job_manifest(GANG, {"Worker": 2})


PODS = ["create pods/demo-worker-0", "create pods/demo-worker-1"]
QUEUED = ["create services/demo", "create podgroups/demo"]


@pytest.mark.parametrize(("scheduler", "namespace", "resource", "path"), [
    ("volcano", "team-a", "podgroups", "/apis/scheduling.volcano.sh/v1beta1/namespaces/team-a/podgroups"),
    ("volcano", "team-a", "priorityclasses", "/apis/scheduling.k8s.io/v1/priorityclasses"),
    ("mine", None, "podgroups", "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"),
])  # fmt: skip
def test_the_caches_of_a_gang_scheduler(scheduler: str, namespace: str | None, resource: str, path: str) -> None:
    framework = replace(TEST_JOB, options=Options(gang=gang_scheduler(scheduler)))
    step = JobController(framework, random=lambda: 1.0, namespace=namespace).informers[resource].next(0.0)
    assert isinstance(step, Fetch | Stream)
    assert step.request.path == path
    ours = ("labelSelector", "training.kubeflow.org/operator-name=testjob-controller") in step.request.query
    assert ours == (resource == "podgroups")


@pytest.mark.parametrize(
    ("refused", "synced"),
    [
        ({}, True),
        ({"podgroups": MISSING}, True),
        ({"priorityclasses": FORBIDDEN}, True),
        ({"priorityclasses": MISSING}, True),
        ({"podgroups": MISSING, "priorityclasses": FORBIDDEN}, True),
        ({"podgroups": FORBIDDEN}, False),
        ({"podgroups": StatusError(503, "", "")}, False),
        ({"pods": MISSING}, False),
        ({"testjobs": MISSING}, True),
        ({"testjobs": FORBIDDEN}, False),
    ],
    ids=str,
)
def test_the_caches_that_are_optional(refused: dict[str, StatusError], synced: bool) -> None:
    """To run a gang's pods one by one because of a missing permission would be a guess; it waits, and the log says why."""
    bench = Bench(GANG, **refused)
    bench.sync()
    assert bench.controller.synced is synced


def test_without_pod_groups_the_job_runs_and_says_so(manifest: Manifest) -> None:
    bench = Bench(GANG, podgroups=MISSING)
    bench.sync()
    (why,) = bench.controller.caches.missing.values()
    assert why == "PodGroup (scheduling.volcano.sh/v1beta1) is not installed in this cluster"
    work = bench.new(manifest)
    assert [str(action) for action in work.plan.actions] == ["create services/demo", *PODS]
    telemetry = bench.finish(work)
    assert "GangSchedulingOff" in [event.reason for event in telemetry.events]
    assert "gang scheduling is off" in status_of(work.plan).conditions[-1].message


def test_all_jobs_are_planned_when_pod_groups_appear_or_disappear() -> None:
    bench = Bench(GANG, podgroups=MISSING)
    bench.sync()
    suspended = job_manifest(GANG, {"Worker": 2}, run_policy={"suspend": True})
    work = bench.new(suspended)
    bench.finish(work)
    bench.echo(work, bench.version)
    bench.finish(bench.work())
    assert bench.begin() is None
    bench.now += 60
    bench.sync_one("podgroups")
    assert bench.controller.caches.missing == {}
    bench.finish(bench.work())
    assert bench.begin() is None, "planned once"
    bench.refuse("podgroups", MISSING)
    bench.finish(bench.work())
    assert bench.begin() is None


def test_priorities_that_are_no_numbers_count_as_none() -> None:
    bench = Bench(GANG)
    bench.sync()
    for name, value in (("high", 7), ("odd", "seven")):
        body = {"metadata": {"name": name}, "value": value}
        bench.say("priorityclasses", "ADDED", body)
    wanted = job_manifest(GANG, {"Master": 1, "Worker": 1}, run_policy={"schedulingPolicy": {"minAvailable": 1}})
    for kind, name, cpu in (("Master", "odd", "1"), ("Worker", "high", "2")):
        pod = wanted["spec"]["testReplicaSpecs"][kind]["template"]["spec"]
        pod |= {"priorityClassName": name, "containers": [{**pod["containers"][0], "resources": {"requests": {"cpu": cpu}}}]}
    group = next(action for action in bench.new(wanted).plan.actions if action.plural == "podgroups")
    assert group.manifest["spec"]["minResources"] == {"cpu": "2"}


# -- The JobController that owns Kueue's Workloads: its caches, and running jobs when the cluster takes a capability away

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
