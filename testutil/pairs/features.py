"""The optional features, what happens to a job that has them, and the worlds of two of them at once."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from jobcommon.api import labels
from jobcommon.api.gang import NATIVE, VOLCANO
from jobcommon.api.job import RestartPolicy
from jobcommon.api.kueue import QUEUE_LABEL
from jobcommon.api.observed import FINALIZERS, IMAGES
from jobcommon.api.status import ConditionType
from jobcommon.framework import Framework, Options, ProgressServer
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.trainjob import TRAINJOB
from jobcommon.operators.trainjob.runtimes import shipped
from jobcommon.reconcile.features import FEATURES as EXTENSIONS
from jobcommon.testutil.builders import Manifest, job_manifest, replica_spec, template
from jobcommon.testutil.cluster_model import FLAVOR, ClusterModel
from jobcommon.testutil.frameworks import SCALED_JOB
from jobcommon.testutil.node_model import PLENTY

REFUSABLE = (FINALIZERS, IMAGES, "pods")
Happening = Callable[[ClusterModel], object]


def run_on(world: ClusterModel) -> None:
    """Nothing happens for a while."""
    world.wait(world.chance.choice([1, 12, 45, 130, 400]))


def exit_one(world: ClusterModel) -> None:
    """The program of a replica ends."""
    _exit(world, [_any_running(world)], world.chance.choice([0, 137, 137, 1]))


def blip(world: ClusterModel) -> None:
    """All programs fail at once, as when the network breaks."""
    _exit(world, _running(world), 139)


def one_then_another(world: ClusterModel) -> None:
    """A replica fails, and its peer a few seconds later; the operator may look between, or not."""
    _exit(world, [_any_running(world)], world.chance.choice([1, 137]))
    world.now += 3
    _exit(world, [_any_running(world)], 134)


def _running(world: ClusterModel) -> list[str]:
    """The pods whose programs run and are not being stopped."""
    return sorted(
        name
        for name, pod in world.pods.items()
        if pod.view.deletion_time is None
        and pod.view.uid not in world.silent
        and any("running" in status["state"] for status in pod.raw["status"].get("containerStatuses", ()))
    )


def _any_running(world: ClusterModel) -> str:
    names = _running(world)
    return world.chance.choice(names) if names else ""


def _exit(world: ClusterModel, names: Sequence[str], code: int) -> None:
    job = world.job
    slots = {job.pod_name(replica): replica for replica in job.replicas}
    for name in filter(None, names):
        replica = slots.get(name)
        policy = job.replica_specs[replica.type].restart_policy if replica is not None else None
        # Under Always each end is a restart that counts.
        if code or policy == RestartPolicy.ALWAYS:
            stopped = job.suspended or job.status.has(ConditionType.SUSPENDED)
            final = policy == RestartPolicy.NEVER or (policy == RestartPolicy.EXIT_CODE and code < 128)
            tolerated = replica is None or world.framework.tolerates_failure(job, replica)
            # What fails while another pod terminates, as on a lost node, may have failed of that.
            lost = job.restarts_together and any(pod.view.deletion_time is not None for pod in world.pods.values())
            world.truth.failed(world.now, name, permanent=final and not (stopped or tolerated or lost))
        world.exit(name, code)


def delete(world: ClusterModel) -> None:
    """A user deletes a pod."""
    if name := _any_running(world):
        world.truth.by_others += 1
        world.delete_pod(name)


def succeed_one(world: ClusterModel) -> None:
    """The program of a replica ends well, and a user deletes its pod."""
    if name := _any_running(world):
        _exit(world, [name], 0)
        world.react()
        if name in world.pods and world.pods[name].view.phase == "Succeeded":
            world.delete_pod(name)


def evict(world: ClusterModel) -> None:
    """The kubelet evicts a pod."""
    if name := _any_running(world):
        world.truth.by_others += 1
        world.evict(name)


def suspend(world: ClusterModel) -> None:
    """The user suspends the job, or resumes it."""
    world.edit(suspend=not world.job.run_policy.suspend)


def scale(world: ClusterModel) -> None:
    """The user changes the number of replicas."""
    count = world.chance.choice([0, 1, 2, 4])
    scaled, leader = world.framework.scaled_type, world.framework.replica_types[0]
    if leader.name == scaled:
        world.scale(scaled, max(count, 1))
    else:
        world.scale(scaled, count)
        world.scale(next(iter(world.job.replica_specs)), max(min(count, 1), leader.min_replicas))


def lose_node(world: ClusterModel) -> None:
    """The node of a pod falls silent."""
    if name := _any_running(world):
        world.silence(name)


def lose_nodes(world: ClusterModel) -> None:
    """Some nodes are gone with their pods, and there are no others."""
    names = _running(world)
    for name in world.chance.sample(names, world.chance.randint(1, len(names) - 1) if len(names) > 1 else 0):
        world.truth.by_others += 1
        world.lose_node_of(name)
    world.room = used(world)


def silence_nodes(world: ClusterModel) -> None:
    """Some nodes fall silent."""
    for _ in range(world.chance.randint(1, 2)):
        lose_node(world)


def restore_nodes(world: ClusterModel) -> None:
    """All nodes are back, and in order."""
    world.silent.clear()
    world.room, world.trouble = PLENTY, ""


def free_node(world: ClusterModel) -> None:
    """There is one node more."""
    world.room = min(PLENTY, used(world) + 1)


def used(world: ClusterModel) -> int:
    """The nodes that pods have."""
    return sum(pod.view.scheduled and pod.view.phase in ("Pending", "Running") for pod in world.pods.values())


def hang(world: ClusterModel) -> None:
    """The program stops making steps."""
    if world.trains and world.program.hung_since is None:
        world.program.hung_since = world.now


def refuse(world: ClusterModel) -> None:
    """The platform refuses a kind of write, or takes it again."""
    world.refused = frozenset() if world.refused else frozenset({world.chance.choice(REFUSABLE)})


def forbid_logs(world: ClusterModel) -> None:
    """Logs cannot be read, or can again."""
    world.unkept = "" if world.unkept else world.words("not all logs and events of failed replicas are kept: forbidden")


def die(world: ClusterModel) -> None:
    """The operator dies after some of its writes."""
    world.step(writes=world.chance.choice([0, 1, 2, 3]))


def _becomes(name: str, *values: Any) -> Happening:
    """The world's field of that name becomes one of the values."""
    return lambda world: setattr(world, name, world.chance.choice(values))


def _changes(name: str, usual: Any, other: Any) -> Happening:
    """The world's field of that name becomes another than is usual, or is as usual again."""
    return lambda world: setattr(world, name, other if getattr(world, name) == usual else usual)


_FUNCTIONS = (
    *(run_on, exit_one, blip, one_then_another, delete, succeed_one, evict, suspend, scale, lose_node, lose_nodes),
    *(silence_nodes, restore_nodes, free_node, hang, refuse, forbid_logs, die, ClusterModel.replace_job),
)
EVENTS: Mapping[str, Happening] = {
    **{happening.__name__: happening for happening in _FUNCTIONS},
    "run_long": lambda world: world.wait(400),
    # Nodes fill up, or are free again; those that pods get from now on cannot run them.
    "fill": _becomes("room", 0, 2, 3, 100),
    "spoil": _becomes("trouble", "rejects", "volumes"),
    # A ResourceQuota allows fewer pods, or Kueue has quota for fewer workers, or each for all.
    "ration": _becomes("pods_allowed", 3, 4, None),
    "share": _becomes("share", 1, 2, None),
    # Kueue takes the quota, has none for new Workloads, or the operator cannot see the ResourceFlavor.
    "preempt": _changes("preempted", False, True),
    "close_quota": _changes("quota", True, False),
    "hide_flavor": _changes("cluster", [FLAVOR], []),
    # A webhook refuses pods.
    "refuse_pods": _changes("refused", frozenset(), frozenset({"pods"})),
}
"""All that may happen, by name."""


@dataclass(frozen=True)
class Feature:
    """An optional feature: the fields that turn it on, and what may happen because of it."""

    name: str
    run_policy: Mapping[str, Any] = field(default_factory=dict)
    happenings: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    queue: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    policies: tuple[str, ...] = ()
    framework: Framework | None = None
    spec: Mapping[str, Any] = field(default_factory=dict)


_JOB = {"restartScope": "Job"}
_REPORTS = {"reportProgress": True, "progressDeadlineSeconds": 60}
_ELASTIC = {"minReplicas": 1, "maxReplicas": 4, "shrinkAfterSeconds": 20, "growAfterSeconds": 40}
_NODES = (
    "fill scale evict run_long run_long run_long run_long lose_nodes lose_nodes silence_nodes free_node free_node "
    "restore_nodes spoil ration share replace_job"
)
_HELPERS = ({"name": "prepare", "image": "prepare"}, {"name": "proxy", "image": "proxy", "restartPolicy": "Always"})
FEATURES: Mapping[str, Feature] = {
    one.name: one
    for one in (
        Feature("attempts", _JOB, "one_then_another blip succeed_one"),
        Feature("in-place", {**_JOB, "restartMethod": "Auto"}, "blip die"),
        Feature("elastic", {**_JOB, "elastic": _ELASTIC}, _NODES),
        Feature("elastic-in-place", {**_JOB, "restartMethod": "Auto", "elastic": _ELASTIC}, _NODES),
        Feature("progress", _REPORTS, "blip exit_one"),
        Feature("stall-restart", {**_REPORTS, **_JOB, "stallAction": "Restart"}, "hang"),
        Feature("stall-fail", {**_REPORTS, "stallAction": "Fail"}, "hang"),
        Feature("kept-logs", {"keepFailedLogs": True}, "forbid_logs exit_one"),
        Feature("pending", {"pendingDeadlineSeconds": 60}, "fill evict"),
        Feature("pending-restart", {**_JOB, "pendingDeadlineSeconds": 60, "pendingDeadlineAction": "Restart"}, "fill evict"),
        Feature("node-loss", {"nodeLossSeconds": 20}, "lose_node", annotations={labels.SAFE_TO_DELETE: "true"}),
        Feature("avoided-nodes", {"avoidFailedNodes": True}, "exit_one evict"),
        Feature("gang", {}, "fill evict", {"gang": NATIVE}),
        Feature("kueue", {}, "preempt close_quota hide_flavor", {"kueue": True}, queue=True),
        Feature(
            "tolerance",
            {},
            "exit_one succeed_one",
            framework=TF,
            spec={"enableDynamicWorker": True},
            policies=("ExitCode", "Never"),
        ),
        Feature("always", {}, "exit_one", framework=TF, policies=("Always",)),
        Feature("active-deadline", {"activeDeadlineSeconds": 900}),
        Feature("backoff-limit", {"backoffLimit": 2}, "exit_one succeed_one"),
        Feature("clean-all", {"cleanPodPolicy": "All"}, "exit_one"),
        Feature("suspension", {}, "suspend"),
        Feature("scaling", {}, "scale"),
        Feature("refusals", {}, "refuse"),
        Feature("crashes", {}, "die die"),
    )
}
QUIET = "run_on run_long fill free_node restore_nodes spoil ration share die forbid_logs hide_flavor refuse refuse_pods"
"""What is no reason to restart a program that runs, unless others get the nodes that pods free when they are recreated."""
COMMON: tuple[str, ...] = ("run_on", "run_on", "run_on", "exit_one", "delete")


def world_of(
    first: Feature, second: Feature, chance: Random, *, restless: bool, workers: int, kind: Framework | None = None
) -> ClusterModel | None:
    """A new job with both, of that `kind` if there is one; None where they exclude each other.

    In a `restless` world are no extensions that do not concern it when it is new: they must not matter later either.
    """
    if len({one.name for one in (first.framework, second.framework, kind) if one is not None}) > 1:
        return None
    if kind is not None and kind.queued_by_kueue and (first.queue or second.queue):
        return None
    known = _POLICIES if kind is not TRAINJOB else ("Never", "OnFailure")
    policies = [policy for policy in first.policies or second.policies or known if policy in (second.policies or (policy,))]
    if not policies:
        return None
    policy = {**first.run_policy, **second.run_policy}
    elastic = "elastic" in policy
    framework = kind or first.framework or second.framework or (PYTORCH if elastic else SCALED_JOB)
    if chance.random() < 0.5:
        policy.setdefault("restartScope", "Job")
    options = {"progress": ProgressServer("https://operator", "certificate"), **first.options, **second.options}
    pod: dict[str, Any] = {}
    if elastic:
        policy["elastic"] = {**policy["elastic"], "maxReplicas": workers + 1}
        pod = {"terminationGracePeriodSeconds": 200, "initContainers": chance.choice([[], list(_HELPERS)])}
        if options.get("gang"):
            policy["schedulingPolicy"] = chance.choice([{}, {"minAvailable": workers + 1}])
        if options.get("kueue"):
            options["gang"] = chance.choice([None, VOLCANO])
    framework = replace(framework, options=replace(Options(), **options))
    leader = "PS" if framework.kind == "TFJob" else "Master"
    made = template(framework)
    marks = {"metadata": {"annotations": {**first.annotations, **second.annotations}}, "spec": {**made["spec"], **pod}}
    chosen = chance.choice(policies)
    counts = {leader: 1, "Worker": workers}
    types = {role: replica_spec(framework, count, chosen, template=marks) for role, count in counts.items()}
    manifest = job_manifest(framework, types, run_policy=policy, **{**first.spec, **second.spec})
    if kind is TRAINJOB:
        framework, manifest = _train_job(framework, manifest, marks, chosen, chance)
    manifest["metadata"]["labels"] = {QUEUE_LABEL: "team"} if first.queue or second.queue else {}
    world = ClusterModel(framework, manifest, chance=chance, restless=restless, order=chance.randrange(100), thorough=False)
    world.reports = bool(policy.get("reportProgress"))
    if world.job.errors:
        return None
    if elastic:
        world.stops_after, world.checkpoint = chance.choice([0.0, 0.0, 100.0]), chance.choice(["", "last.pt"])
    if restless:
        features = tuple(one for one in EXTENSIONS if one.concerns(world.job))
        world.framework = replace(world.framework, features=features)
    return world


def _train_job(framework: Framework, job: Manifest, pod: Manifest, policy: str, chance: Random) -> tuple[Framework, Manifest]:
    """The same as a TrainJob, by a runtime with such pods. A batch Job with backoffLimit 0 restarts none."""
    name, restart_policy = chance.choice(["torch-distributed", "plain"]), chance.choice(["OnFailure", "Never"])
    runtime = deepcopy(next(one for one in shipped() if one["metadata"]["name"] == name))
    (role,), (main,) = runtime["spec"]["template"]["spec"]["replicatedJobs"], pod["spec"]["containers"]
    spec = {**pod["spec"], "containers": [{**main, "name": "node"}], "restartPolicy": restart_policy}
    role["template"]["spec"] = {"backoffLimit": 0 if policy == "Never" else 50, "template": {**pod, "spec": spec}}
    own = dict(job["spec"]["runPolicy"])
    nodes = sum(one["replicas"] for one in job["spec"][framework.replica_specs].values())
    given: Manifest = {"runtimeRef": {"name": name}, "trainer": {"numNodes": nodes}, "runPolicy": own}
    if "activeDeadlineSeconds" in own:
        given["activeDeadlineSeconds"] = own.pop("activeDeadlineSeconds")
    made, manifest = framework.specialized({**job, "spec": given}, framework.related_to([runtime]))
    return made, dict(manifest)


_POLICIES = ("ExitCode", "Never", "OnFailure")
KINDS: Mapping[str, Framework] = {"trainjob": TRAINJOB}
"""Kinds of jobs that may be chosen."""
