"""The MPIJob operator."""

from operators.mpi.framework import MPI

__all__ = ["MPI"]
