"""A job's pods as Indexed Jobs of a JobSet: one template for many pods, whose index Kubernetes puts into their environment."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from posixpath import commonprefix
from typing import Any

from jobcommon.api.replica import Replica
from jobcommon.framework import Job

INDEX = "JOB_COMPLETION_INDEX"
INDEX_ENV = {
    "name": INDEX,
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}},
}
Json = dict[str, Any]


@dataclass(frozen=True)
class Group:
    """Replicas that are the pods of one Indexed Job, in the order of its indices. `template` is theirs."""

    name: str
    replicas: tuple[Replica, ...]
    template: Json


def groups_of(job: Job, pods: Mapping[Replica, Json]) -> list[Group]:
    """The pods in as few groups as their differences allow: by type, or all types in one, or else one a pod.

    The addresses of the replicas in their environment are those that the pods of the JobSet have.
    """
    by_type: dict[str, list[Replica]] = {}
    for replica in pods:
        by_type.setdefault(replica.type, []).append(replica)
    arrangements = [
        {kind.lower(): replicas for kind, replicas in by_type.items()},
        {"node": list(pods)},
        {f"{replica.type.lower()}-{replica.index}": [replica] for replica in pods},
    ]
    for arrangement in arrangements:
        found = arranged(job, pods, arrangement)
        if found is not None:
            return found
    raise AssertionError("one group a pod always has a template")


def arranged(job: Job, pods: Mapping[Replica, Json], arrangement: Mapping[str, Sequence[Replica]]) -> list[Group] | None:
    """The groups, if each has a template."""
    hosts = {
        job.address(replica): job.address(replica).replace(job.pod_name(replica), f"{job.name}-{name}-0-{index}", 1)
        for name, replicas in arrangement.items()
        for index, replica in enumerate(replicas)
    }
    # A pod has its host name in place of its own address.
    hosts |= {job.pod_name(replica): hosts[job.address(replica)] for replica in pods}
    some = next(iter(pods))
    suffix = job.address(some).removeprefix(job.pod_name(some))
    address = re.compile(rf"(?<![\w.-]){re.escape(job.name)}-[a-z0-9-]+(?:{re.escape(suffix)})?(?![\w.-])")
    found = []
    for name, replicas in arrangement.items():
        if len({job.replica_specs[replica.type].restart_policy for replica in replicas}) > 1:
            return None
        template = _template([_renamed(pods[replica], address, hosts) for replica in replicas])
        if template is None:
            return None
        found.append(Group(name, tuple(replicas), template))
    return found


def _renamed(pod: Json, address: re.Pattern[str], hosts: Mapping[str, str]) -> Json:
    """The pod with the addresses of its peers replaced in its environment, the only place where an operator writes them."""

    def value(text: str) -> str:
        return address.sub(lambda found: hosts.get(found[0], found[0]), text)

    def container(found: Json) -> Json:
        env = [{**one, "value": value(one["value"])} if "value" in one else one for one in found.get("env") or ()]
        return {**found, "env": env} if env else found

    spec = dict(pod["spec"])
    for key in ("containers", "initContainers"):
        if key in spec:
            spec[key] = [container(one) for one in spec[key]]
    return {**pod, "spec": spec}


def _template(pods: Sequence[Json]) -> Json | None:
    """The template of which the pods are the instances by index; None if they differ otherwise."""
    if len(pods) == 1:
        return pods[0]
    if len({_shape(pod) for pod in pods}) > 1:
        return None
    found: Json = json.loads(json.dumps(pods[0]))
    for key in ("initContainers", "containers"):
        for position, container in enumerate(found["spec"].get(key) or ()):
            indexed = False
            for place, variable in enumerate(container.get("env") or ()):
                values = [pod["spec"][key][position]["env"][place].get("value") for pod in pods]
                if len(set(values)) == 1:
                    continue
                text = _indexed(values)
                if text is None:
                    return None
                variable["value"] = text
                indexed = True
            if indexed:
                container["env"] = [INDEX_ENV, *(one for one in container["env"] if one["name"] != INDEX)]
    return found


def _shape(pod: Json) -> str:
    """What must be the same: everything but the values of variables."""

    def container(found: Json) -> Json:
        env = [{**one, "value": ""} if "value" in one else one for one in found.get("env") or ()]
        return {**found, "env": env}

    spec = pod["spec"]
    varying = {key: [container(one) for one in spec[key]] for key in ("containers", "initContainers") if key in spec}
    return json.dumps({**pod, "spec": {**spec, **varying}}, sort_keys=True)


def _indexed(values: Sequence[str]) -> str | None:
    """The text with ``$(JOB_COMPLETION_INDEX)`` of which the values are the instances."""
    before = commonprefix([values[0], values[1]])
    if not values[0].startswith(f"{before}0"):
        return None
    after = values[0][len(before) + 1 :]
    if all(value == f"{before}{index}{after}" for index, value in enumerate(values)):
        return f"{before}$({INDEX}){after}"
    return None
