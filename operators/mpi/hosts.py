"""mpirun's host files, and the script by which it reaches the hosts without ssh."""

from collections.abc import Iterable, Sequence

from jobcommon import Job, PodView, Replica, open_mpi_hosts
from jobcommon.operators.mpi.job import THE_LAUNCHER, host, implementation, launcher_works, mpi_spec, slots, transport, workers
from jobcommon.operators.mpi.spec import Implementation, LauncherTransport

KUBECTL = "/opt/kube/kubectl"


def hostfile(job: Job) -> str:
    """A line for each wanted host, whether it runs or not: mpirun starts with the whole set."""
    hosts = [host(job, replica) for replica in [*_launcher(job), *workers(job)]]
    if implementation(job) == Implementation.OPEN_MPI:
        return open_mpi_hosts(hosts, slots(job))
    return _lines(f"{one}:{slots(job)}" for one in hosts)


def discover_hosts(job: Job, pods: Sequence[PodView]) -> str:
    """Horovod's host discovery script: the hosts that run now, in order of their numbers, as ``host:slots``.

    A worker that is being deleted is left out, so that nothing is started on it any more.
    """
    running = {pod.name for pod in pods if pod.phase == "Running" and pod.deletion_time is None}
    there = [replica for replica in workers(job) if job.pod_name(replica) in running]
    return _lines(["#!/bin/sh", *(f"echo {host(job, replica)}:{slots(job)}" for replica in [*_launcher(job), *there])])


def kubexec(job: Job) -> str:
    """mpirun's remote shell over kubectl exec: options of a real remote shell are skipped, then come host and command."""
    main = mpi_spec(job).main_container
    container = f" --container {_quoted(main)}" if main else ""
    return _lines([
        "#!/bin/sh",
        "while :; do",
        '  case "$1" in',
        "    -[bcDEeFIiJLlmOopQRSWw]) shift 2 ;;",
        "    -*) shift ;;",
        "    *) break ;;",
        "  esac",
        "done",
        "host=$1",
        "shift",
        f'exec {KUBECTL} exec --namespace {job.namespace} "$host"{container} -- /bin/sh -c "$*"',
    ])  # fmt: skip


def files(job: Job, pods: Sequence[PodView]) -> dict[str, str]:
    """The data of the job's ConfigMap."""
    found = {"hostfile": hostfile(job), "discover_hosts.sh": discover_hosts(job, pods)}
    return {**found, "kubexec.sh": kubexec(job)} if transport(job) == LauncherTransport.EXEC else found


def _launcher(job: Job) -> list[Replica]:
    return [THE_LAUNCHER] if launcher_works(job) else []


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
