"""The TrainJob operator."""

from jobcommon.operators.trainjob.framework import TRAINJOB

__all__ = ["TRAINJOB"]
