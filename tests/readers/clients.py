"""What those read who submit jobs and wait for their end: Katib (`pkg/controller.v1beta1/trial`, `pkg/webhook/v1beta1/pod`),
Flyte (`flyteplugins/…/k8s/kfoperators`), Argo's resource templates (`workflow/executor/resource.go`), AppWrapper
(`internal/controller/appwrapper`), HyperPod's CLI (`hyperpod_cli/service/list_training_jobs.py`), and the kubeflow-training
SDK.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from jobcommon.api.timestamp import parse_time
from jobcommon.reconcile import read_job
from tests.readers.lives import Life, Obj, conditions, holds, label
from tests.readers.need import Need

ROLE = "job-role"
ENDS = ("Succeeded", "Failed")


# -- Katib -----------------------------------------------------------------------------------------------------------------


def trial_pod(life: Life) -> Iterator[str]:
    """Metrics are collected in the one pod that its default primaryPodLabels select."""
    primary = [pod["metadata"]["name"] for pod in life.pods if label(pod, ROLE) == "master"]
    if len(primary) != 1:
        yield f"primary pods: {primary}"


# -- Flyte -----------------------------------------------------------------------------------------------------------------

PHASES = {"Created": "queued", "Running": "running", "Restarting": "running", "Succeeded": "success", "Failed": "failure"}


def _flyte_phase(job: Obj) -> str:
    """Of the conditions by time of transition, the latest first, the first that is True."""
    found = sorted(conditions(job), key=lambda c: parse_time(c["lastTransitionTime"]) or 0.0, reverse=True)
    if not found:
        return "queued"
    current = next((c["type"] for c in found if c["status"] == "True"), None)
    return "error" if current is None else PHASES.get(current, "undefined")


def phases(life: Life) -> Iterator[str]:
    """Queued, running, the end, in this order and without a gap; queued as long as both began in the same second."""
    end = "failure" if life.course == "failed" else "success"
    seen = list(dict.fromkeys(_flyte_phase(job) for job in life.jobs))
    times = {c["type"]: c["lastTransitionTime"] for job in life.jobs for c in conditions(job) if c["status"] == "True"}
    quick = times.get("Running") == times["Created"]
    if seen != (["queued", end] if quick else ["queued", "running", end]):
        yield f"phases {seen}"


def log_names(life: Life) -> Iterator[str]:
    """It links to the logs of pods by their names."""
    name, there = life.manifest["metadata"]["name"], {pod["metadata"]["name"] for pod in life.pods}
    suffixes = {"ps": "psReplica", "chief": "chiefReplica", "evaluator": "evaluatorReplica"}
    for kind in life.specs:
        lower = kind.lower()
        wanted = [] if lower == "launcher" else [f"{name}-{suffixes.get(lower, lower)}-0"]
        yield from (f"no pod {pod}" for pod in wanted if pod not in there)


# -- Argo ------------------------------------------------------------------------------------------------------------------


def argo_success(life: Life) -> Iterator[str]:
    """`successCondition: status.replicaStatuses.<leader>.succeeded == <replicas>`, as the examples of Kubeflow say it."""
    # Without a Chief worker 0 decides; of an elastic job the first worker does.
    one_is_enough = life.leader == "Worker" and (life.framework.kind == "TFJob" or "elasticPolicy" in life.jobs[0]["spec"])
    wanted = 1 if one_is_enough else read_job(life.framework, life.jobs[0]).count(life.leader)
    for job in life.jobs:
        counts = ((job.get("status") or {}).get("replicaStatuses") or {}).get(life.leader) or {}
        matched = int(counts.get("succeeded") or 0) >= wanted
        if matched != holds(job, "Succeeded"):
            yield f"succeeded: {counts.get('succeeded')}, condition: {holds(job, 'Succeeded')}"


def argo_failure(life: Life) -> Iterator[str]:
    """`failureCondition: status.replicaStatuses.<leader>.failed > 0` holds at the end of a failed job."""
    counts = life.jobs[-1]["status"]["replicaStatuses"][life.leader]
    if not int(counts.get("failed") or 0) > 0:
        yield f"failed: {counts.get('failed')}"


def argo_all(life: Life) -> Iterator[str]:
    """`successCondition: status.replicaStatuses.Worker.succeeded == <replicas>`, also of a type that does not decide: the
    examples of Argo and Couler. KFP and Hera make such steps, too.
    """
    statuses = life.jobs[-1]["status"]["replicaStatuses"]
    for kind, spec in _with_work(life).items():
        if statuses[kind].get("succeeded") != spec["replicas"]:
            yield f"{kind}: {statuses[kind].get('succeeded')} of {spec['replicas']}"


# -- AppWrapper and HyperPod -------------------------------------------------------------------------------------------------


def app_wrapper(life: Life) -> Iterator[str]:
    """It resets a job that ends with fewer Succeeded pods than it has replicas, unless Failed is True."""
    last = {obj["metadata"]["uid"]: obj for table, obj in life.moments if table == "pod"}
    ended = sum(pod["status"].get("phase") == "Succeeded" for pod in last.values())
    if ended < (wanted := sum(spec["replicas"] for spec in _with_work(life).values())):
        yield f"{ended} Succeeded pods, {wanted} replicas"


def hyperpod_state(life: Life) -> Iterator[str]:
    """`hyperpod list-jobs` shows the first of the conditions with the latest lastTransitionTime."""
    shown = max(conditions(life.jobs[-1]), key=lambda c: parse_time(c["lastTransitionTime"]) or 0.0)
    if shown["type"] not in ENDS:
        yield f"{shown['type']}={shown['status']} at the end"


def _with_work(life: Life) -> Mapping[str, Obj]:
    """The specs of the types that are not stopped when the job succeeds; none where cleanPodPolicy says which are."""
    policy = (life.jobs[0]["spec"].get("runPolicy") or {}).get("cleanPodPolicy") or life.jobs[0]["spec"].get("cleanPodPolicy")
    return {} if policy else {kind: spec for kind, spec in life.specs.items() if not life.framework.serves(kind)}


# -- the SDK -----------------------------------------------------------------------------------------------------------------

SDK = {
    "1.5": {"group-name": "kubeflow.org"},
    "1.6 to 1.9": {},
}


def pods_of_sdk(version: str) -> Any:
    """`get_job_pod_names`: by labels of that version."""

    def check(life: Life) -> Iterator[str]:
        wanted = {**SDK[version], "training.kubeflow.org/job-name": life.manifest["metadata"]["name"]}
        for pod in life.pods:
            missing = sorted(key for key, value in wanted.items() if pod["metadata"]["labels"].get(key) != value)
            if missing:
                yield f"{pod['metadata']['name']} has not {missing}"

    return check


FLYTE_KINDS = ("TFJob", "PyTorchJob", "MPIJob v1")
NEEDS = (
    Need("Katib", "one primary pod, by the label `job-role=master`", trial_pod, courses=("run",)),
    Need("Flyte", "queued, running, ended, by the latest condition", phases, FLYTE_KINDS, ("run", "failed")),
    Need("Flyte", "the pods' names, for links to their logs", log_names, FLYTE_KINDS, ("run",)),
    Need("Argo", "`replicaStatuses` of the deciding type: succeeded", argo_success, courses=("run", "failed")),
    Need("Argo", "`replicaStatuses` of the deciding type: failed", argo_failure, courses=("failed",)),
    Need("Argo, Couler, Hera, KFP", "`replicaStatuses` of every type but servers: all succeeded", argo_all, courses=("run",)),
    Need("AppWrapper", "as many Succeeded pods as replicas", app_wrapper, ("PyTorchJob",), ("run",)),
    Need("HyperPod CLI", "the state, by the latest transition", hyperpod_state, ("PyTorchJob",), ("run", "failed")),
    Need("SDK", "pods by labels, 1.5", pods_of_sdk("1.5"), courses=("run",)),
    Need("SDK", "pods by labels, 1.6 to 1.9", pods_of_sdk("1.6 to 1.9"), courses=("run",)),
    Need("SDK", "logs of the master, by `job-role=master`", trial_pod, courses=("run",)),
)
