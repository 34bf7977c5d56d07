"""The controllers an embedded cluster needs, in the same process as its API server.

Each is a class with ``step() -> float | None``: do everything that is due now, synchronously, and return the time (Unix
seconds) when something is due again without a change. All are level-triggered: a step may be run at any moment, any number of
times, and a restart loses nothing. `Controllers` runs them all, for a simulator (`step`) and for the asyncio shell (`run`).
"""

from localcluster.controllers.controllers import Controllers

__all__ = ["Controllers"]
