"""The TFJob operator."""

from operators.tf.framework import TF

__all__ = ["TF"]
