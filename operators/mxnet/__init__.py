"""The MXJob operator."""

from jobcommon.operators.mxnet.framework import MXNET

__all__ = ["MXNET"]
