"""``jobcommon migrate``: jobs of kubeflow.org as TrainJobs with their runtimes, and back."""

from jobcommon.cli.migrate.trainjob import API_VERSION, Migration, to_trainjob
from jobcommon.cli.migrate.v1 import to_v1

__all__ = ["API_VERSION", "Migration", "to_trainjob", "to_v1"]
