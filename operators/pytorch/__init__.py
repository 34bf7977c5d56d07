"""The PyTorchJob operator."""

from operators.pytorch.framework import PYTORCH

__all__ = ["PYTORCH"]
