"""``jobcommon migrate``: jobs of kubeflow.org as TrainJobs with their runtimes."""

from jobcommon.cli.migrate.trainjob import Migration, to_trainjob

__all__ = ["Migration", "to_trainjob"]
