"""Bad input: every manifest is read, says where and what is wrong, and fails its job once, not the operator."""

from copy import deepcopy
from typing import Any

import pytest

from jobcommon.api.observed import Observed
from jobcommon.reconcile import plan
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Manifest, Pod, condition, job_manifest, observe
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.plans import status_of

W = "spec.testReplicaSpecs.Worker"
AT = "spec.testReplicaSpecs[Worker]"
C = f"{W}.template.spec.containers"
R = "spec.runPolicy"
CONTAINER = {"name": "test-container", "image": "image"}
AT_LEAST_ONE = "Required value: at least one container"
TYPES = "Required value: name at least one replica type of Master, Worker"
NAME = 'use up to 63 lower case letters, digits and "-", beginning with a letter'
LIST = "must be a list of objects with a name"
WORDS = 'must be a list of words; for a shell line use ["sh", "-c", "the line"]'
DNS = "must be an object; its searches are a list of domains"
MAPS = "must be an object; its labels and annotations are maps of text to text"
POLICIES = 'use one of "Always", "OnFailure", "Never", "ExitCode", ""'
SHORTER = "63 are allowed; use a name of at most 54 characters"
TOO_MANY = (
    "Too many: 1000 different templates have 613000 values in total, 500000 are allowed; "
    "use fewer overrides or a smaller template"
)
NAMED = 'Required value: one container must be named "test-container"'
GONE: Any = object()


def poisoned(path: str, value: Any) -> Manifest:
    manifest = job_manifest(TEST_JOB, {"Worker": 2})
    *parents, last = path.split(".")
    at: Any = manifest
    for part in parents:
        at = at[int(part) if isinstance(at, list) else part]
    if value is GONE:
        del at[last]
    else:
        at[last] = value
    return manifest


def override(*entries: tuple[list[Any], Any]) -> list[Manifest]:
    return [{"indices": indices, "template": {"spec": {"containers": containers}}} for indices, containers in entries]


BAD_METADATA: list[Any] = [[], {"labels": ["a"]}, {"labels": {"a": 1}}, {"annotations": {"a": None}}]
POISON = [
    ("spec", GONE, "spec: must be an object with testReplicaSpecs"),
    ("spec", ["x"], "spec: must be an object with testReplicaSpecs"),
    *(("spec.testReplicaSpecs", value, f"spec.testReplicaSpecs: {TYPES}") for value in (GONE, None, {}, [{}])),
    (W, None, f"{AT}: Required value: a replica spec with a template"),
    (W, {}, f"{AT}.template: Required value"),
    (f"{W}.replicas", -1, f"{AT}.replicas: must be at least 0"),
    *((f"{W}.replicas", value, f"{AT}.replicas: must be a whole number") for value in (1.5, "3", True)),
    (f"{W}.replicas", 10**9, f"{AT}.replicas: must be at most 10000"),
    (f"{W}.restartPolicy", ["Never"], f'{AT}.restartPolicy: ["Never"] is not supported; {POLICIES}'),
    *((f"{W}.template", value, f"{AT}.template: must be an object") for value in (None, "x")),
    *((f"{W}.template.spec", value, f"{AT}.template.spec.containers: {AT_LEAST_ONE}") for value in (GONE, None, [1])),
    *((C, value, f"{AT}.template.spec.containers: {AT_LEAST_ONE}") for value in (GONE, None, [], {"a": 1})),
    (C, [None], f"{AT}.template.spec.containers[0]: must be an object with name and image"),
    *((f"{C}.0.image", value, f"{AT}.template.spec.containers[0].image: Required value") for value in ("", 3)),
    *((f"{C}.0.name", value, f"{AT}.template.spec.containers: {NAMED}") for value in ("tensorfow", ["test-container"])),
    *((f"{C}.0.env", value, f"{AT}.template.spec.containers[0].env: {LIST}") for value in ({"A": "b"}, [1], [{"name": ["A"]}])),
    (f"{C}.0.ports", [None], f"{AT}.template.spec.containers[0].ports: {LIST}"),
    (f"{C}.0.command", "sleep 3", f"{AT}.template.spec.containers[0].command: {WORDS}"),
    (f"{C}.0.args", ["a", None, "b"], f"{AT}.template.spec.containers[0].args[1]: must be text, in quotes"),
    (f"{C}.0.volumeMounts", True, f"{AT}.template.spec.containers[0].volumeMounts: {LIST}"),
    # What operators add to.
    *((f"{W}.template.spec.{name}", [7], f"{AT}.template.spec.{name}: {LIST}") for name in ("volumes", "initContainers")),
    *((f"{W}.template.spec.dnsConfig", value, f"{AT}.template.spec.dnsConfig: {DNS}") for value in ([], {"searches": "a"})),
    *((f"{W}.template.metadata", metadata, f"{AT}.template.metadata: {MAPS}") for metadata in BAD_METADATA),
    ("spec.testReplicaSpecs.Robot", {}, "spec.testReplicaSpecs[Robot]: Unsupported value: use one of Master, Worker"),
    (
        "spec.testReplicaSpecs.worker", {},
        "spec.testReplicaSpecs[worker]: Duplicate value: Worker is given twice in different spellings",
    ),
    (f"{W}.overrides", {}, f"{AT}.overrides: must be a list"),
    (f"{W}.overrides", [{"indices": [0]}], f"{AT}.overrides[0].template: Required value"),
    (f"{W}.overrides", override(([], [])), f"{AT}.overrides[0].indices: must not be empty"),
    (f"{W}.overrides", override(([0, 10_000], [])), f"{AT}.overrides[0].indices[1]: must be at most 9999"),
    (f"{W}.overrides", override(*[([0], [])] * 1001), f"{AT}.overrides: must not have more than 1000 entries"),
    (
        f"{W}.overrides", override(*(([n], [{**CONTAINER, "args": ["x"] * 600}]) for n in range(1000))),
        f"{AT}.overrides: {TOO_MANY}",
    ),
    (
        f"{W}.overrides", override(([0, 1], None), ([0], [CONTAINER])),
        f"{AT}.overrides[0].template.spec.containers: {AT_LEAST_ONE}",
    ),
    (R, [], "spec.runPolicy: must be an object"),
    (f"{R}.cleanPodPolicy", "Some", f'{R}.cleanPodPolicy: "Some" is not supported; use one of "All", "Running", "None", ""'),
    (f"{R}.ttlSecondsAfterFinished", 2**31, "spec.runPolicy.ttlSecondsAfterFinished: must be at most 2147483647"),
    (f"{R}.activeDeadlineSeconds", 0, "spec.runPolicy.activeDeadlineSeconds: must be at least 1"),
    (f"{R}.suspend", "true", "spec.runPolicy.suspend: must be true or false"),
    (f"{R}.managedBy", 3, "spec.runPolicy.managedBy: must be text, in quotes"),
    (f"{R}.schedulingPolicy", {"minAvailable": 0}, "spec.runPolicy.schedulingPolicy.minAvailable: must be at least 1"),
    *(("metadata.name", n, f'metadata.name: Invalid value: "{n or ""}": {NAME}') for n in ("00t", "dé", "d\n", None, "a" * 64)),
    (
        "metadata.name", "a" * 55,
        f'metadata.name: Invalid value: "{"a" * 55}": the pod {"a" * 55}-worker-1 would have 64 characters, {SHORTER}',
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value", "error"), POISON, ids=[f"{number}-{path}" for number, (path, _, _) in enumerate(POISON)]
)
def test_a_bad_manifest_says_what_is_wrong(path: str, value: Any, error: str) -> None:
    manifest = poisoned(path, value)
    kept = deepcopy(manifest)
    job = read_job(TEST_JOB, manifest)
    assert [str(found) for found in job.errors] == [error]
    assert manifest == kept
    decided = plan(TEST_JOB, job, Observed(), START)
    assert decided.actions == ()
    last = status_of(decided).conditions[-1]
    assert (last.type, last.reason, last.message) == ("Failed", "InvalidSpec", error)
    assert [event.reason for event in decided.events] == ["TestJobFailed"]
    manifest["status"] = status_of(decided).to_json()
    again = plan(TEST_JOB, read_job(TEST_JOB, manifest), Observed(), START + 99)
    assert (again.actions, again.status, again.events) == ((), None, ())


def test_deep_nesting_never_raises() -> None:
    deep: Manifest = {}
    for _ in range(3000):
        deep = {"a": deep}
    for path in ("spec.deep", f"{W}.deep", "status", f"{W}.template.spec.deep"):
        job = read_job(TEST_JOB, poisoned(path, deep))
        plan(TEST_JOB, job, Observed(), START)


@pytest.mark.parametrize(
    "text", ["$(HOME)", "%s %d", "{0} {x}", 'a"b\\c', "line\nline", "ünïcödé ☃", "\x00\x1b[31m"], ids=range(7)
)
def test_text_is_only_text(text: str) -> None:
    """Nothing that stands in a manifest or a termination message is ever a format string or loses a character."""
    manifest = job_manifest(TEST_JOB, {"Worker": 1}, policy="Never")
    container = manifest["spec"]["testReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container |= {"args": [text], "env": [{"name": "A", "value": text}]}
    job = read_job(TEST_JOB, manifest)
    pod = Pod.of(TEST_JOB, job, "Worker", 0)
    assert pod.raw["spec"]["containers"][0]["args"] == [text]
    assert {"name": "A", "value": text} in pod.raw["spec"]["containers"][0]["env"]
    decided = plan(TEST_JOB, job, Observed((pod.running().failed(1, message=text).view,)), START)
    assert text.splitlines()[-1] in status_of(decided).conditions[-1].message


STATUSES: list[Any] = [
    None, [], "done", 7, {"conditions": None}, {"conditions": {}}, {"conditions": [None, 1, {"type": 3}]},
    {"conditions": [condition("Dancing")]}, {"conditions": [condition("Running", False)]},
    {"conditions": [condition("Running"), condition("Running"), condition("Created")]},
    {"replicaStatuses": []}, {"replicaStatuses": {"Worker": None, "Robot": {"active": "x"}}},
    {"replicaStatuses": {"Worker": {"succeededIndexes": "0-,x,9-1,-3,99999999999999999999999,1-1000000000"}}},
    {"replicaStatuses": {"Worker": {"succeededIndexes": 3, "restarts": -5}}},
    {"startTime": 3}, {"startTime": "9999-12-31T23:59:59Z"},
    {"completionTime": "tomorrow"}, {"restarts": -1, "disruptions": -7}, {"restarts": 2**70}, {"restarts": "many"},
    {"countedPods": [1, None]}, {"countedPods": "uid"}, {"failures": [{}, {"replica": "Worker-0", "reason": "x"}, 3]},
    {"unknown": {"kept": [None]}, "start_time": "x"},
]  # fmt: skip


@pytest.mark.parametrize("status", STATUSES, ids=range(len(STATUSES)))
@pytest.mark.parametrize("suspend", [False, True])
def test_a_forged_status_is_read_as_far_as_it_can_be(status: Any, suspend: bool) -> None:
    """The job goes on, its status is put right in one write, and then there is peace."""
    manifest = job_manifest(
        TEST_JOB, {"Worker": 2}, policy="OnFailure", run_policy={"suspend": suspend, "activeDeadlineSeconds": 10**8}
    )
    manifest["status"] = status
    observed = observe(TEST_JOB, manifest, {} if suspend else {"Worker-0": "running", "Worker-1": "running"})
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), observed, START)
    assert status_of(decided).conditions[-1].type == ("Suspended" if suspend else "Running")
    manifest["status"] = status_of(decided).to_json()
    assert plan(TEST_JOB, read_job(TEST_JOB, manifest), observed, START).status is None
