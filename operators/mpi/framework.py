"""MPIJob: what MPI adds to the common job controller.

Behaviour: mpi-operator's v2beta1 (ssh) and training-operator's v1 (kubectl exec), with their defects put right
(docs/deviations.md). The launcher is a pod of ours, not a batch Job: its failures are counted in the job's own status, and
clean-up, TTL, deadline and suspension are those of every other kind.
"""

from collections.abc import Iterator, Mapping

from jobcommon import (
    CelRule,
    FieldError,
    Framework,
    Job,
    Outcome,
    Replica,
    ReplicaType,
    RestartPolicy,
    ScalePaths,
    Tallies,
    Tally,
    Version,
    command_line,
)
from jobcommon.operators.mpi.checks import CHECKS
from jobcommon.operators.mpi.companions import KINDS, companions
from jobcommon.operators.mpi.environment import env
from jobcommon.operators.mpi.job import (
    LAUNCHER,
    REPLICA_SPECS,
    WORKER,
    mpi_options,
    mpi_spec,
    retried_like_a_batch_job,
    ssh_path,
    transport,
    waits_for_workers,
)
from jobcommon.operators.mpi.options import MPIOptions
from jobcommon.operators.mpi.pods import shape_pod
from jobcommon.operators.mpi.spec import LauncherTransport, MPIJobSpec
from jobcommon.operators.mpi.versions import V1_DEFAULTS, V1ALPHA2_DEFAULTS, V2BETA1_DEFAULTS, upgrade


def index_offsets(job: Job) -> Mapping[str, int]:
    """As mpi-operator counts: a launcher that also runs ranks is number 0 of the hosts.

    Kueue takes 1 off the workers' numbers where the field is set, and gives up placing by rank when one comes out below 0.
    """
    return {WORKER.lower(): 1} if mpi_spec(job).run_launcher_as_worker else {}


def outcome(_job: Job, tallies: Tallies) -> Outcome:
    """The launcher decides; the job runs when all its workers do, too."""
    launcher, workers = tallies.get(LAUNCHER, Tally()), tallies.get(WORKER)
    whole = workers is None or workers.active + workers.succeeded >= workers.wanted
    return Outcome(running=launcher.active > 0 and whole, succeeded=launcher.complete)


def is_master(_job: Job, replica: Replica) -> bool:
    """The launcher."""
    return replica.type == LAUNCHER


def may_create(job: Job, replica: Replica, tallies: Tallies) -> bool:
    """The launcher waits until all workers are ready, or are there: at first, after a resume, at a retry.

    One that took the place of a worker under a quota would reach that worker never, and use up backoffLimit.
    """
    workers = tallies.get(WORKER)
    if replica.type != LAUNCHER or workers is None:
        return True
    there = workers.ready if waits_for_workers(job) else workers.active + workers.pending
    return there + workers.succeeded >= workers.wanted


def retries(job: Job, replica: Replica) -> bool:
    """A launcher of v2beta1, which was the pod of a batch Job."""
    return replica.type == LAUNCHER and retried_like_a_batch_job(job)


def joins(job: Job, kind: str) -> bool:
    """Workers that elastic Horovod finds by a script, such as discover_hosts.sh."""
    launcher = job.replica_specs.get(LAUNCHER)
    return kind == WORKER and launcher is not None and "--host-discovery-script" in command_line(launcher.template)


def validate(job: Job) -> Iterator[FieldError]:
    """An error unless the mount path of the keys is absolute."""
    if not ssh_path(job).startswith("/") or ssh_path(job) == "/":
        yield FieldError("spec.sshAuthMountPath", "Invalid value: must be an absolute path, such as /root/.ssh")


def blocked(job: Job) -> str:
    """Why the job may not start: kubectl exec needs rights that the operator may not have. "" if it may."""
    if transport(job) == LauncherTransport.SSH or mpi_options(job).exec:
        return ""
    text = "spec.transport: jobs may not start by kubectl exec here, the transport of v1 and v1alpha2; recreate the job with"
    return f"{text} transport SSH (the images need sshd), or allow it by the chart's value mpiExec"


MPI = Framework(
    kind="MPIJob",
    plural="mpijobs",
    name="mpi",
    # Kueue's command finds the pods of an MPIJob by mpi-operator's name. training-operator wrote the other one.
    controller="mpi-operator",
    former_controllers=("mpijob-controller",),
    replica_specs=REPLICA_SPECS,
    replica_types=(
        ReplicaType(
            LAUNCHER,
            RestartPolicy.ON_FAILURE,
            min_replicas=1,
            max_replicas=1,
            # Under Always a launcher that succeeded would start over for ever.
            restart_policies=(RestartPolicy.ON_FAILURE, RestartPolicy.NEVER, RestartPolicy.EXIT_CODE),
            indexed=False,
        ),
        # As a pod of policy Never, but one that is killed or lost is replaced; the reference left the job without it. sshd
        # answers SIGTERM with exit 0, so an evicted worker would pass for one that has succeeded.
        ReplicaType(WORKER, RestartPolicy.EXIT_CODE, min_replicas=1, runs_to_completion=False),
    ),
    container="",
    port_name="",
    port=0,
    spec=MPIJobSpec,
    versions=(
        Version("v2beta1", storage=True, defaults=V2BETA1_DEFAULTS),
        Version("v1", defaults=V1_DEFAULTS),
        Version("v1alpha2", defaults=V1ALPHA2_DEFAULTS),
    ),
    index_offsets=index_offsets,
    env=env,
    env_in_main_only=True,
    outcome=outcome,
    is_master=is_master,
    upgrade=upgrade,
    validate=validate,
    joins=joins,
    blocked=blocked,
    shape_pod=shape_pod,
    companions=companions,
    own_options=MPIOptions(),
    companion_kinds=KINDS,
    may_create=may_create,
    retries=retries,
    scale=ScalePaths.of_type(REPLICA_SPECS),
    checks=CHECKS,
    queue_is_fixed=False,
    rules=(
        CelRule(
            "self.matches('^/.+')",
            "sshAuthMountPath must be an absolute path, such as /root/.ssh",
            path=("spec", "sshAuthMountPath"),
        ),
        # Running pods have the files and rights of the old transport, which a job of the new one would not remove.
        CelRule(
            "!has(oldSelf.transport) || !has(self.transport) || oldSelf.transport == self.transport",
            "transport cannot be changed; delete and recreate the job",
            path=("spec",),
            field_path=".transport",
        ),
    ),
)
