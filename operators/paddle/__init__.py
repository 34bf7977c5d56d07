"""The PaddleJob operator."""

from jobcommon.operators.paddle.framework import PADDLE

__all__ = ["PADDLE"]
