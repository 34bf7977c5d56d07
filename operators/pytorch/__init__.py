"""The PyTorchJob operator."""

from jobcommon.operators.pytorch.framework import PYTORCH

__all__ = ["PYTORCH"]
