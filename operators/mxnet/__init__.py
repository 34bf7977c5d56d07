"""The MXJob operator."""

from operators.mxnet.framework import MXNET

__all__ = ["MXNET"]
