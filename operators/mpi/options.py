"""Operator-wide options for MPIJobs."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MPIOptions:
    """The options ``--mpi-…`` of the command."""

    exec: bool = field(
        default=True,
        metadata={"help": "Whether launchers of MPIJobs may get the right to run commands in their workers (v1)."},
    )
    kubectl_image: str = field(
        default="kubeflow/kubectl-delivery:latest",
        metadata={"metavar": "IMAGE", "help": "Where launchers of MPIJobs v1 get kubectl from; the image has a shell, too."},
    )
