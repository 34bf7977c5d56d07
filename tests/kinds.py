"""The frameworks of all kinds that this project has operators for."""

import pytest

from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.xgboost import XGBOOST

KINDS = (JAX, MPI, MXNET, PADDLE, PYTORCH, TF, XGBOOST)
EVERY_KIND = pytest.mark.parametrize("framework", KINDS, ids=lambda framework: framework.name)
