"""The MPIJob operator."""

from jobcommon.operators.mpi.framework import MPI

__all__ = ["MPI"]
