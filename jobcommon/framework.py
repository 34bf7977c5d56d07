"""The seam: what a training framework adds to the common job controller.

A framework is a frozen value: facts (kind, replica types, container, port) and a handful of pure functions. There is no
base class to override and nothing to register; `plan(framework, job, observed, now)` takes the value as an argument. The
smallest one sets the facts, `env` and, if its leader is not its first replica type, `outcome`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType
from typing import Any, ClassVar

from jobcommon.api.definition import CelRule as CelRule
from jobcommon.api.definition import Companion as Companion
from jobcommon.api.definition import CompanionKind as CompanionKind
from jobcommon.api.definition import Definition as Definition
from jobcommon.api.definition import ObjectKey as ObjectKey
from jobcommon.api.definition import RelatedKind as RelatedKind
from jobcommon.api.definition import Right, Watch
from jobcommon.api.definition import ScalePaths as ScalePaths
from jobcommon.api.definition import Version as Version
from jobcommon.api.gang import GangScheduler
from jobcommon.api.job import JobSpec, ReplicaSpec, RestartMethod, RestartPolicy, RestartScope, RunPolicy, template_for
from jobcommon.api.model import ApiModel
from jobcommon.api.pod import PodView
from jobcommon.api.replica import Members, Replica, pod_name
from jobcommon.api.status import MAX_ATTEMPT, ConditionType, JobStatus
from jobcommon.api.template import containers_of, mapping_of, mappings_in

GROUP = "kubeflow.org"
FINALIZER = "training.kubeflow.org/job-tracking"
SERVICE_PER_REPLICA = "training.kubeflow.org/service-per-replica"
OUR_MANAGER = "kubeflow.org/training-operator"
OUR_MANAGERS = (None, OUR_MANAGER)


@dataclass(frozen=True, slots=True)
class FieldError:
    """An error in one field of a job, and its remedy. `path` is written as kubectl writes it."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class ReplicaType:
    """One replica type: its canonical name, its defaults and the allowed numbers of replicas.

    The name of a pod ends with its index, unless the type is not `indexed`; then `max_replicas` must be 1. Before it stands
    `pods`, or without that the type in lower case. A job must have a type that is `required`, before `Framework.upgrade`, too.
    Once the job has succeeded, replicas of a type that `serves` the others are no longer needed. Neither are those of a type
    that does not run to completion, whose exit 0 before that is a disruption and no success.
    """

    name: str
    restart_policy: RestartPolicy = RestartPolicy.NEVER
    replicas: int = 1
    min_replicas: int = 0
    max_replicas: int | None = None
    required: bool = False
    restart_policies: tuple[RestartPolicy, ...] = tuple(RestartPolicy)
    indexed: bool = True
    runs_to_completion: bool = True
    serves: bool = False
    pods: str = ""


@dataclass(frozen=True, slots=True)
class EnvVar:
    """An environment variable of a replica.

    It replaces a variable of that name in the user's template, as in the reference, where the later of two entries won. A
    `default` does not: the user's variable wins.
    """

    name: str
    value: str
    default: bool = False

    def __post_init__(self) -> None:
        """A pod with a number as the value would be refused, with a message about the manifest."""
        if not isinstance(self.value, str):
            raise TypeError(f'EnvVar("{self.name}", {self.value!r}): the value must be a string; write "{self.value}"')


UNBUFFERED = EnvVar("PYTHONUNBUFFERED", "1", default=True)
"""Python writes at once, so that a log can be followed. Not for programs that share an output: a line becomes two writes."""


@dataclass(frozen=True, slots=True)
class Check:
    """A setting of valid jobs that does not do what its user expects; docs/checks.md has all of them.

    `about` says when it applies. `warning` returns what to change, in one sentence, or None; it is asked of valid jobs only.
    """

    name: str
    about: str
    warning: Callable[["Framework", "Job"], str | None]


@dataclass(frozen=True, slots=True)
class ProgressServer:
    """Where pods report their progress: the URL of the operators' server, and its certificate or authority as PEM."""

    url: str
    certificate: str


@dataclass(frozen=True, slots=True)
class Options:
    """Operator-wide options, for the jobs of every framework.

    `cluster_domain` is appended to the addresses of replicas; without it `search_domain` is the cluster's, in which pods search
    the plain names of their peers ("": cluster.local). `tracking_finalizer`: keep ended pods until they are counted.
    `gang`: the scheduler that places a job's pods all at once; with None each pod keeps the scheduler of its template.
    `progress`: where pods report their progress; None: nowhere. `kueue`: own the Workload of each job labelled
    for a queue of Kueue.
    """

    cluster_domain: str = ""
    search_domain: str = ""
    tracking_finalizer: bool = True
    gang: GangScheduler | None = None
    progress: ProgressServer | None = None
    kueue: bool = False


@dataclass(frozen=True)
class Job(Members):
    """One job at one version: defaulted, its replica types in the framework's order and canonical spelling.

    `errors` are those of the spec; such a job keeps only the replica specs that could be read, and `unread` names the types
    whose could not. `unindexed`: the types, in lower case as in labels, whose only pod has no index in its name.
    `index_offsets`: by such a type, what the replica-index label of its pods adds to the index. `own_options` are those of its
    framework. `admitted`: no queue keeps it from having pods. `service`: the name of its headless Service where that is
    not its own. `warnings`: what the checks of its spec have found. `asked`:
    by type, the replicas that its user asks for, if `replica_specs` have those of the present attempt instead (see
    `jobcommon.manifests.size`). `left_out`: by type, the indexes that are not members of that attempt; the others up to its
    count are. `missing`: an object that it refers to does not exist, as `errors` say, and it waits for that.
    `pods` and `subdomain`: see `ReplicaType` and `Framework`. `features`: by name, what its run policy says of features that
    have a model of their own.
    """

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    creation_time: float | None
    deleting: bool
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: JobSpec
    replica_specs: Mapping[str, ReplicaSpec]
    status: JobStatus
    raw_status: Mapping[str, Any]
    options: Options = Options()
    own_options: object = None
    errors: tuple[FieldError, ...] = ()
    unread: frozenset[str] = frozenset()
    unindexed: frozenset[str] = frozenset()
    index_offsets: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    admitted: bool = True
    service: str = ""
    warnings: tuple[str, ...] = ()
    asked: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    left_out: Mapping[str, frozenset[int]] = field(default_factory=lambda: MappingProxyType({}))
    missing: bool = False
    pods: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    subdomain: str = ""
    features: Mapping[str, ApiModel] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def run_policy(self) -> RunPolicy:
        """The job's run policy."""
        return self.spec.run_policy

    @property
    def suspended(self) -> bool:
        """Whether the job is to have no pods, because its user or its queue wants it so."""
        return bool(self.run_policy.suspend or not self.admitted)

    @property
    def managed_elsewhere(self) -> bool:
        """Whether another controller manages this job (`managedBy`); then this one neither interprets nor writes it."""
        return self.managed_by not in OUR_MANAGERS

    @property
    def managed_by(self) -> str | None:
        """The controller that manages this job. Either field can give it to another one."""
        named = (self.run_policy.managed_by, self.spec.managed_by)
        return next((name for name in named if name not in OUR_MANAGERS), named[0] or named[1])

    @property
    def restarts_together(self) -> bool:
        """Whether a failed or lost replica restarts all of them."""
        return self.run_policy.restart_scope == RestartScope.JOB

    @property
    def restarts_in_place(self) -> bool:
        """Whether a new attempt keeps the pods that can be kept."""
        return self.restarts_together and self.run_policy.restart_method == RestartMethod.AUTO

    @property
    def starts_by_image(self) -> bool:
        """Whether programs start when the images of their pods are set, so that a pod may know of another attempt by then."""
        return self.restarts_in_place or self.is_elastic

    @property
    def is_elastic(self) -> bool:
        """Whether the job is resized to the replicas that have nodes."""
        return self.restarts_together and self.run_policy.elastic is not None

    @property
    def is_gathering(self) -> bool:
        """Whether its pods wait for each other's nodes, and no program of the attempt has started."""
        waits = self.status.gathering_since is not None and not self.status.has(ConditionType.SUSPENDED)
        return waits and self.is_elastic

    @property
    def keeps_failed_logs(self) -> bool:
        """Whether the logs of failed replicas are kept. Restarted in place, a pod runs when its job fails, and is deleted."""
        chosen = self.run_policy.keep_failed_logs
        return self.restarts_in_place if chosen is None else chosen

    @property
    def attempt(self) -> int:
        """The current attempt: how often all replicas were restarted together."""
        number = self.status.attempt or 0
        return number if 0 <= number <= MAX_ATTEMPT else 0

    def asked_of(self, kind: str) -> int:
        """The number of replicas of a type that the user requests."""
        return self.asked.get(kind, self.count(kind))

    @property
    def service_per_replica(self) -> bool:
        """Whether the user asked for the reference's one Service per replica."""
        return self.annotations.get(SERVICE_PER_REPLICA) == "true"

    @property
    def service_name(self) -> str:
        """The name of the headless Service that makes the pods' addresses: their subdomain."""
        return self.service or self.subdomain or self.name

    def pod_name(self, replica: Replica) -> str:
        """The name of the pod in that slot."""
        indexed = not self.unindexed or replica.type.lower() not in self.unindexed
        named = Replica(self.pods[replica.type], replica.index) if self.pods and replica.type in self.pods else replica
        return pod_name(self.name, named, indexed=indexed)

    def index_label(self, replica: Replica) -> int:
        """The value of the replica-index label of the pod in that slot."""
        return replica.index + self.index_offsets.get(replica.type.lower(), 0)

    def address(self, replica: Replica) -> str:
        """The DNS name under which the other replicas reach that one."""
        pod = self.pod_name(replica)
        host = pod if self.service_per_replica else f"{pod}.{self.service_name}"
        domain = f".{self.options.cluster_domain}" if self.options.cluster_domain else ""
        return f"{host}.{self.namespace}.svc{domain}"


@dataclass(frozen=True, slots=True)
class Tally:
    """The pods of one replica type, counted.

    `succeeded` counts slots that have succeeded, including those whose pod no longer exists; `active` pods run and are not
    being deleted; `failed` pods ended in failure and still exist.
    """

    wanted: int = 0
    active: int = 0
    ready: int = 0
    pending: int = 0
    succeeded: int = 0
    failed: int = 0
    succeeded_indexes: frozenset[int] = frozenset()

    @property
    def complete(self) -> bool:
        """Whether every wanted replica has succeeded."""
        return 0 < self.wanted <= self.succeeded


Tallies = Mapping[str, Tally]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A framework's evaluation of the tallies: does the job run, has it succeeded."""

    running: bool = False
    succeeded: bool = False


@dataclass(frozen=True, slots=True)
class FollowLeader:
    """The rule of `succeed_with`. A value, so that its names can be checked when the framework is loaded."""

    leaders: tuple[str, ...]
    any_of_last: bool = False

    def __call__(self, _job: "Job", tallies: Tallies) -> Outcome:
        """Whether the job runs and has succeeded."""
        leader = next((tallies[name] for name in self.leaders if name in tallies), Tally())
        succeeded = leader.complete or (self.any_of_last and leader.succeeded > 0)
        return Outcome(running=leader.active > 0, succeeded=succeeded)


def succeed_with(*leaders: str, any_of_last: bool = False) -> FollowLeader:
    """The usual rule: the first of `leaders` that the job has decides.

    The job runs while a replica of that type runs and has succeeded when all of them have.
    """
    return FollowLeader(leaders, any_of_last)


Manifest = Mapping[str, Any]
Related = Mapping[ObjectKey, Manifest]
MISSING_SECONDS = 5.0
"""An object that a job refers to may have been created just before it: so long it is not reported as missing."""


def reported_missing_at(job: "Job") -> float:
    """From when on (seconds since the epoch) it is an error that an object does not exist which the job refers to."""
    return (job.creation_time or 0.0) + MISSING_SECONDS if job.missing else inf


def _key(manifest: Manifest, namespaced: bool) -> tuple[str, str]:
    metadata = mapping_of(manifest.get("metadata"))
    return str(metadata.get("namespace") or "") if namespaced else "", str(metadata.get("name") or "")


def _first_replica(job: Job, replica: Replica) -> bool:
    return replica == next(iter(job.replicas), None)


class Feature:
    """What an optional feature of jobs brings beside its decisions, for which see `PodShape`, `Admission` and `Lifecycle`.

    With a `spec`, a model, jobs have the field `runPolicy.<name>`; with a `status` it records `status.features.<name>`. One of
    this library records `fields` of the status instead, which it alone writes.
    """

    name: ClassVar[str] = ""
    spec: ClassVar[type[ApiModel] | None] = None
    status: ClassVar[type[ApiModel] | None] = None
    fields: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def access(cls, options: Options) -> Iterable[Watch | Right]:  # noqa: ARG003 - most need nothing
        """The kinds of objects that it reads or writes, in an operator with those options, and what else it does."""
        return ()

    @classmethod
    def validate(cls, job: Job) -> Iterable[FieldError]:  # noqa: ARG003 - a model says most of it
        """Errors of the job's spec beyond those of its model."""
        return ()

    @classmethod
    def concerns(cls, job: Job) -> bool:  # noqa: ARG003 - what most features depend on
        """Whether the job uses the feature, or its status still has something of it. Otherwise nothing else is asked."""
        return True


@dataclass(frozen=True)
class Framework:
    """A training framework, as the common controller sees it.

    Facts: `kind`, `plural`, `name` (for flags and metric labels), `controller` (the operator-name label and the source
    of events), `former_controllers` (further values of that label, on what other operators or releases made),
    `replica_specs` (the spec's field), `replica_types` in the order in which they are handled, `container` (the one whose
    exit code counts; "" for the first of the template), `port_name` and `port` ("" for none).

    Options: `options` are the same for every framework. `own_options` is the value of a frozen dataclass with those of this
    framework alone (None without any); functions find it in the job. Each field, a bool, int, float or str, is an option of the
    command, ``--<name>-<field>``, with the `help` and `metavar` in its metadata.

    Functions, all pure and total:

    * `index_offsets(job)`: by type in lower case, what its pods' replica-index label adds to the index in their names;
    * `env(job, replica)`: the variables that describe the cluster to a replica, for every container or, with
      `env_in_main_only`, for the main one;
    * `outcome(job, tallies)`: does the job run, has it succeeded; the tallies are those of the types that have replicas;
    * `is_master(job, replica)`: which replica carries the job-role=master label;
    * `upgrade(spec, version)`: the raw spec of an older or looser form, brought to the current one;
    * `validate(job)`: errors of spec and metadata beyond those of the models; not asked again when only the status changes;
    * `blocked(job)`: why an operator with these options cannot start the job; "" if it can. This is no error of the spec: the
      job waits, and one that has begun continues;
    * `shape_pod(job, replica, pod)`: anything else a pod needs; may change and return `pod`;
    * `companions(job, pods)`: the further objects the job needs now;
    * `may_create(job, replica, tallies)`: whether that replica's pod may be created yet, or its program started again in place;
    * `tolerates_failure(job, replica)`: whether the job continues when that replica has failed for good;
    * `retries(job, replica)`: whether its pod is replaced after any failure, as a batch Job does within backoffLimit;
    * `joins(job, kind)`: whether replicas of that type join and leave the others while these run. Another number of those is no
      new attempt.

    A kind whose jobs are read with other objects, which say what its replicas are, has these as well:

    * `related`, the kinds of those that users write, and `references(raw)`, the objects that a job refers to; a kind of
      companions may be among them, as the copy that a job keeps of what it was started with;
    * `specialize(framework, raw, related)`: for one job the framework and the manifest that its pods are made from, given those
      objects as far as they exist. The framework has the types of that job, and facts of it alone: `unresolved` are the errors
      for which there are none; with `missing` they are that an object does not exist, and the job waits for it; `subdomain` is
      the name of its headless Service ("" for that of the job);
    * `shipped()`: objects of those kinds that come with the operator, which a reader without the cluster's takes instead.

    `status_fields(job, status, pods, created, now)`: fields of the status that the kind has beside the common ones. Where
    `conditions` are among them, the common ones stand in `jobConditions`. `created`: the types that are about to get pods.
    `corrections(job, now)`: a merge patch of the job itself, with what a webhook would have set when it was written; empty if
    nothing is missing. `suspend_at`: the path of `suspend` in the spec. `rival`: the lease of another controller of this kind;
    the operator does not act while it is held. `queued_by_kueue`: Kueue queues jobs of this kind itself, in every
    configuration.
    `definition` is the schema of a kind whose spec is not that of `JobSpec` with replica specs.

    `features` are the optional features of its jobs, asked in that order; None: `FEATURES`, those of this library.

    `queue_is_fixed`: the API server refuses another `schedulingPolicy.queue`. `checks` are those of this kind alone; each job
    has those of all kinds as well.
    """

    kind: str
    plural: str
    name: str
    replica_specs: str
    replica_types: tuple[ReplicaType, ...]
    container: str
    port_name: str
    port: int
    spec: type[JobSpec] = JobSpec
    replica_spec: type[ReplicaSpec] = ReplicaSpec
    controller: str = ""
    former_controllers: tuple[str, ...] = ()
    versions: tuple[Version, ...] = (Version("v1", storage=True),)
    index_offsets: Callable[[Job], Mapping[str, int]] = lambda _job: MappingProxyType({})
    env: Callable[[Job, Replica], Sequence[EnvVar]] = lambda *_: ()
    env_in_main_only: bool = False
    outcome: Callable[[Job, Tallies], Outcome] | None = None
    is_master: Callable[[Job, Replica], bool] = _first_replica
    upgrade: Callable[[Mapping[str, Any], str], Mapping[str, Any]] = lambda spec, _version: spec
    validate: Callable[[Job], Iterable[FieldError]] = lambda *_: ()
    blocked: Callable[[Job], str] = lambda _job: ""
    shape_pod: Callable[[Job, Replica, dict[str, Any]], dict[str, Any]] = lambda _job, _replica, pod: pod
    companions: Callable[[Job, Sequence[PodView]], Sequence[Companion]] = lambda *_: ()
    companion_kinds: tuple[CompanionKind, ...] = ()
    features: tuple[type[Feature], ...] | None = None
    may_create: Callable[[Job, Replica, Tallies], bool] = lambda *_: True
    tolerates_failure: Callable[[Job, Replica], bool] = lambda *_: False
    retries: Callable[[Job, Replica], bool] = lambda *_: False
    joins: Callable[[Job, str], bool] = lambda *_: False
    rules: tuple[CelRule, ...] = ()
    checks: tuple[Check, ...] = ()
    scale: ScalePaths | None = None
    definition: Definition | None = None
    queue_is_fixed: bool = True
    group: str = GROUP
    options: Options = field(default_factory=Options)
    own_options: object = None
    related: tuple[RelatedKind, ...] = ()
    references: Callable[[Mapping[str, Any]], Sequence[ObjectKey]] = lambda *_: ()
    specialize: "Callable[[Framework, Manifest, Related], tuple[Framework, Manifest]] | None" = None
    shipped: Callable[[], Sequence[Mapping[str, Any]]] = lambda *_: ()
    unresolved: tuple[FieldError, ...] = ()
    missing: bool = False
    subdomain: str = ""
    status_fields: Callable[[Job, JobStatus, Sequence[PodView], Collection[str], float], Mapping[str, Any]] | None = None
    rival: str = ""
    corrections: Callable[[Job, float], Mapping[str, Any]] | None = None
    suspend_at: tuple[str, ...] = ("runPolicy", "suspend")
    queued_by_kueue: bool = False

    def with_suspend(self, value: bool) -> Manifest:
        """The patch that suspends a job, or resumes it."""
        patch: Manifest | bool = value
        for name in reversed(("spec", *self.suspend_at)):
            patch = {name: patch}
        return patch if isinstance(patch, Mapping) else {}

    def is_suspended(self, raw: Manifest) -> bool:
        """Whether the manifest suspends the job, whatever else can be read of it."""
        value: Any = raw
        for name in ("spec", *self.suspend_at):
            value = value.get(name) if isinstance(value, Mapping) else None
        return value is True

    def specialized(self, raw: "Manifest", related: "Related") -> "tuple[Framework, Manifest]":
        """The framework and the manifest by which the job in `raw` is read, given the objects that it refers to."""
        return self.specialize(self, raw, related) if self.specialize is not None else (self, raw)

    def related_to(self, manifests: "Iterable[Manifest]") -> "Related":
        """Those of `manifests` that jobs may refer to, for `specialized`."""
        kinds = {kind.kind: kind for kind in self.related}
        found = [(kinds[str(one.get("kind"))], one) for one in manifests if str(one.get("kind")) in kinds]
        return {ObjectKey(kind.plural, *_key(one, kind.namespaced)): one for kind, one in found}

    def runs_to_completion(self, kind: str) -> bool:
        """Whether replicas of that type succeed by ending with exit 0."""
        return all(one.runs_to_completion for one in self.replica_types if one.name == kind)

    def serves(self, kind: str) -> bool:
        """Whether replicas of that type only serve the others, so that a job that has succeeded does not need them."""
        return any(one.serves or not one.runs_to_completion for one in self.replica_types if one.name == kind)

    @property
    def scaled_type(self) -> str:
        """The replica type that the scale subresource changes; "" without one."""
        return self.scale.spec.split(".")[-2] if self.scale is not None else ""

    @property
    def singular(self) -> str:
        """The kind in lower case, as kubectl takes it."""
        return self.kind.lower()

    @property
    def operator_name(self) -> str:
        """The value of the operator-name label and the source of events."""
        return self.controller or f"{self.singular}-controller"

    @property
    def storage_version(self) -> str:
        """The version that is stored and that the operator reads."""
        return next(version.name for version in self.versions if version.storage)

    def defaults_of(self, version: str) -> Mapping[str, Any]:
        """The defaults of a version's own; none for a version that is not served."""
        return next((v.defaults for v in self.versions if v.name == version), {})

    @property
    def api_version(self) -> str:
        """Group and stored version."""
        return f"{self.group}/{self.storage_version}"

    def main_container(self, spec: ReplicaSpec, index: int = 0) -> str:
        """The name of the container whose exit code counts: `container`, or the first; "" when the template has none."""
        if self.container:
            return self.container
        return next((str(container.get("name", "")) for container in containers_of(template_for(spec, index))), "")

    def port_of(self, spec: ReplicaSpec | None) -> int:
        """The port of the main container that bears the framework's port name; the framework's default without one."""
        for container in containers_of(spec.template) if spec else ():
            if container.get("name") == self.container:
                for port in mappings_in(container.get("ports")):
                    if port.get("name") == self.port_name and isinstance(port.get("containerPort"), int):
                        return int(port["containerPort"])
        return self.port

    def decide(self, job: Job, tallies: Tallies) -> Outcome:
        """The framework's `outcome`, or by default that of its first replica type that the job has."""
        rule = self.outcome or succeed_with(*(kind.name for kind in self.replica_types))
        return rule(job, {kind: tally for kind, tally in tallies.items() if tally.wanted})
