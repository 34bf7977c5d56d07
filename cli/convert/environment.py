"""The variables by which Polyaxon told a task of its experiment. TF_CONFIG, DMLC_* and MASTER_* are the operators' business."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobcommon.api.labels import REPLICA_INDEX
from jobcommon.cli.convert.experiment import Experiment
from jobcommon.cli.convert.pod import Env

_INDEX = "POLYAXON_TASK_INDEX"


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of one Polyaxon type (master, worker, ps, server), the replica type they become, and their port."""

    type: str
    replica_type: str
    count: int
    port: int
    indexed: bool = True


def polyaxon_env(experiment: Experiment, tasks: Tasks, cluster: Sequence[Tasks]) -> Env:
    """The variables of every task of `tasks`, in a job of all of `cluster`.

    Which task it is a pod learns from its own label, by the downward API: one template serves all of a type. There is one
    master only, and a batch Job's pod has no such label.
    """
    values: dict[str, str] = {
        "POLYAXON_CLUSTER": _json({t.type: [f"{host}:{t.port}" for host in hosts(experiment.name, t)] for t in cluster}),
        experiment.params_name: _json(experiment.params),
        "POLYAXON_EXPERIMENT_INFO": _json(experiment.info),
        "POLYAXON_LOG_LEVEL": experiment.log_level,
    }
    env = [{"name": name, "value": value} for name, value in experiment.env.items()]
    env += _task_info(tasks)
    return env + [{"name": name, "value": value} for name, value in values.items() if name not in experiment.env]


def _task_info(tasks: Tasks) -> Env:
    if tasks.type == "master":
        return [{"name": "POLYAXON_TASK_INFO", "value": _json({"type": tasks.type, "index": 0})}]
    label = {"fieldRef": {"fieldPath": f"metadata.labels['{REPLICA_INDEX}']"}}
    value = f'{{"type": {_json(tasks.type)}, "index": $({_INDEX})}}'
    return [{"name": _INDEX, "valueFrom": label}, {"name": "POLYAXON_TASK_INFO", "value": value}]


def hosts(job: str, tasks: Tasks) -> list[str]:
    """Names that resolve in the job's own namespace, whichever that will be."""
    prefix = f"{job}-{tasks.replica_type.lower()}"
    pods = [f"{prefix}-{index}" if tasks.indexed else prefix for index in range(tasks.count)]
    return [f"{pod}.{job}" for pod in pods]


def _json(value: Mapping[str, Any] | str) -> str:
    """JSON in which Kubernetes finds no variable of its own to expand: a $ that is one is written twice."""
    return json.dumps(value, ensure_ascii=False).replace("$", "$$")
