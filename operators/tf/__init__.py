"""The TFJob operator."""

from jobcommon.operators.tf.framework import TF

__all__ = ["TF"]
