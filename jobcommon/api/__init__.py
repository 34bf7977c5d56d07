"""The data of jobs: models, views and names, without I/O."""

import jobcommon.api.labels as labels

__all__ = ["labels"]
