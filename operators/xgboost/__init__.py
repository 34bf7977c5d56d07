"""The XGBoostJob operator."""

from jobcommon.operators.xgboost.framework import XGBOOST

__all__ = ["XGBOOST"]
