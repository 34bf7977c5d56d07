"""PaddleJob: what PaddlePaddle adds to the common job controller.

Behaviour: that of training-operator's PaddleJob v1. Without a Master the workers train collectively; with one they are the
trainers of a parameter server, which runs in the Master.
"""

from collections.abc import Sequence
from typing import Any

from jobcommon import UNBUFFERED, EnvVar, Framework, Job, Replica, ReplicaType, RestartPolicy, ScalePaths, succeed_with
from jobcommon.operators.paddle.spec import PaddleJobSpec

MASTER, WORKER = "Master", "Worker"
REPLICA_SPECS = "paddleReplicaSpecs"
POD_IP = {"name": "POD_IP_DUMMY", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def env(job: Job, replica: Replica) -> Sequence[EnvVar]:
    """What paddle.distributed.launch reads, in every container."""
    leader = _rendezvous(job)
    # The launcher that finds its own IP there, and not a name, serves the rendezvous.
    host = f"$({POD_IP['name']})" if replica == leader else job.address(leader)
    variables = [
        UNBUFFERED,
        EnvVar("PADDLE_JOB_ID", job.name),
        EnvVar("PADDLE_NNODES", str(job.total_replicas)),
        EnvVar("PADDLE_MASTER", f"{host}:{PADDLE.port_of(job.replica_specs.get(leader.type))}"),
    ]
    if MASTER in job.replica_specs:
        variables.append(EnvVar("PADDLE_SERVER_NUM" if replica.type == MASTER else "PADDLE_TRAINER_NUM", "1"))
    return variables


def is_master(job: Job, replica: Replica) -> bool:
    """Every Master, or worker 0 of a job without one."""
    return replica.type == MASTER or replica == _rendezvous(job)


def shape_pod(job: Job, replica: Replica, pod: dict[str, Any]) -> dict[str, Any]:
    """The pod's own IP, for the replica that serves the rendezvous. A reference works for what stands before it only."""
    if replica == _rendezvous(job):
        for container in pod["spec"]["containers"]:
            container["env"] = [POD_IP, *(entry for entry in container["env"] if entry.get("name") != POD_IP["name"])]
    return pod


def _rendezvous(job: Job) -> Replica:
    return job.first(MASTER if MASTER in job.replica_specs else WORKER)


PADDLE = Framework(
    kind="PaddleJob",
    plural="paddlejobs",
    name="paddle",
    replica_specs=REPLICA_SPECS,
    replica_types=tuple(ReplicaType(kind, RestartPolicy.ON_FAILURE, min_replicas=1) for kind in (MASTER, WORKER)),
    container="paddle",
    port_name="master",
    port=36543,
    spec=PaddleJobSpec,
    env=env,
    is_master=is_master,
    outcome=succeed_with(MASTER, WORKER),
    shape_pod=shape_pod,
    scale=ScalePaths.of_type(REPLICA_SPECS),
)
