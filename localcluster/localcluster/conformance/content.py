"""What the random sequences write: objects, changes of them, and things a server must refuse."""

import random
from typing import Any

from localcluster.conformance.case import Json, Kind, Ref
from localcluster.conformance.kinds import (
    CONFIG_MAPS,
    JOBS,
    NODE,
    PODS,
    SERVICES,
    bound,
    config_map,
    job,
    job_template,
    pod,
    service,
    widget,
)

FINALIZER = "conformance.jobcommon.dev/hold"
_LABELS = ("x", "y", "z")
_WORKER: Json = {"replicas": 1, "template": job_template()}
_JOB_SPECS: tuple[Json, ...] = (
    {}, {"runPolicy": {"cleanPodPolicy": "All", "backoffLimit": 3}}, {"runPolicy": {"suspend": True}}, {"unknown": 1},
    {"tfReplicaSpecs": {"Chief": _WORKER, "PS": _WORKER, "Worker": {**_WORKER, "restartPolicy": "ExitCode"}}},
    {"tfReplicaSpecs": {"Worker": {**_WORKER, "template": job_template(
        ports=[{"name": "tfjob-port", "containerPort": 2222}])}}},
    {"tfReplicaSpecs": {"Worker": {**_WORKER, "template": job_template(
        env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], resources={"limits": {"cpu": "1"}})}}},
    {"tfReplicaSpecs": {"Worker": {**_WORKER, "overrides": [{"indices": [0], "template": job_template(image="j")}]}}},
    {"runPolicy": {"ttlSecondsAfterFinished": 10, "schedulingPolicy": {"queue": "q", "minAvailable": 1}}},
)  # fmt: skip
_BAD_JOB_SPECS: tuple[Json, ...] = (
    {"tfReplicaSpecs": {"Worker": {"replicas": 1}}}, {"tfReplicaSpecs": {"Worker": {**_WORKER, "replicas": -1}}},
    {"tfReplicaSpecs": {"Worker": {**_WORKER, "restartPolicy": "Odd"}}}, {"tfReplicaSpecs": {"Nobody": _WORKER}},
    {"tfReplicaSpecs": {}}, {"tfReplicaSpecs": None}, {"runPolicy": {"cleanPodPolicy": "Odd"}},
    {"runPolicy": {"backoffLimit": "many"}}, {"tfReplicaSpecs": {"Worker": {**_WORKER, "replicas": "two"}}},
    {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": []}}}}},
    {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [{"name": "other", "image": "i"}]}}}}},
    {"tfReplicaSpecs": {"Worker": {"template": job_template(image=5)}}},
)  # fmt: skip


def fresh(rng: random.Random, kind: Kind, name: str) -> Json:
    """A new object, mostly a good one."""
    meta = _metadata(rng)
    if kind == CONFIG_MAPS:
        made = config_map(name, {"k": rng.choice("abc")}, **meta)
        if rng.random() < 0.05:
            made["immutable"] = True
        return made
    if kind == PODS:
        spec: Json = rng.choice((
            {}, {"restartPolicy": "Never"}, {"hostname": name, "subdomain": "svc"}, {"terminationGracePeriodSeconds": 5},
            {"activeDeadlineSeconds": 10}, {"volumes": [{"name": "v", "emptyDir": {}}]},
                {"tolerations": [{"operator": "Exists"}]},
            {"initContainers": [{"name": "init", "image": "i"}]}, {"schedulingGates": [{"name": "example.com/gate"}]},
            {"volumes": [{"name": "c", "configMap": {"name": "c"}}], "securityContext": {"runAsUser": 1}},
        ))  # fmt: skip
        container = rng.choice((
            {}, {"resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi", "cpu": "1"}}},
                {"env": [{"name": "A", "value": "1"}]},
            {"ports": [{"containerPort": 80}]}, {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
            {"readinessProbe": {"httpGet": {"path": "/", "port": 80}}}, {"image": "i:latest"},
                {"command": ["sh"], "args": ["-c", "true"]},
            {"env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]},
        ))  # fmt: skip
        make = bound if rng.random() < 0.4 and "schedulingGates" not in spec else pod
        made = make(name, spec, **meta)
        made["spec"]["containers"][0].update(container)
        return made
    if kind == SERVICES:
        spec = rng.choice((
            {}, {"clusterIP": None}, {"publishNotReadyAddresses": True, "selector": {"app": "x"}},
            {"clusterIP": None, "type": "NodePort"},
            {"ports": [{"name": "p", "port": 1, "targetPort": "web"}, {"name": "q", "port": 2, "protocol": "UDP"}]},
            {"ports": None}, {"type": "ExternalName", "externalName": "example.com", "clusterIP": None, "ports": None},
        ))  # fmt: skip
        made = service(name, spec, **meta)
        made["spec"] = {key: value for key, value in made["spec"].items() if value is not None}
        return made
    if kind == JOBS:
        return job(name, rng.choice(_JOB_SPECS), **meta)
    return widget(name, rng.choice((
        {}, {"replicas": 4}, {"mode": "Slow"}, {"owner": "me"}, {"tags": ["a", "b"]},
        {"parts": [{"name": "p"}, {"name": "q", "weight": 1}]}, {"limit": "10%"}, {"extra": {"any": {"thing": [1]}}},
        {"nested": {"note": None}}, {"unknown": 1}, {"size": 0, "replicas": 0},
    )), **meta)  # fmt: skip


def _metadata(rng: random.Random) -> Json:
    meta: Json = {}
    if rng.random() < 0.6:
        meta["labels"] = {"app": rng.choice(_LABELS)}
        if rng.random() < 0.4:
            meta["labels"]["tier"] = rng.choice(_LABELS)
    if rng.random() < 0.12:
        meta["finalizers"] = [FINALIZER]
    if rng.random() < 0.1:
        meta["annotations"] = {"note": rng.choice(_LABELS)}
    if rng.random() < 0.1:
        meta["ownerReferences"] = [_owner("o1", controller=True)]
    return meta


def _owner(name: str, *, controller: bool) -> Json:
    uid = "11111111-0000-4000-8000-00000000000" + name[-1]
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "controller": controller}


def invalid(rng: random.Random, kind: Kind, body: Json) -> Json:
    """`body` with something in it that the server refuses, or drops."""
    bad: tuple[Json, ...] = (
        {"metadata": {"labels": {"app": "x" * 64}}}, {"metadata": {"labels": {"bad key": "x"}}},
        {"metadata": {"name": "Upper"}},
        {"metadata": {"name": "x" * 254}}, {"metadata": {"finalizers": ["plain"]}}, {"metadata": {"name": "dot.ted"}},
        {"metadata": {"ownerReferences": [_owner("o1", controller=True), _owner("o2", controller=True)]}},
        {"apiVersion": "v9"}, {"status": {"phase": "Done"}},
    )  # fmt: skip
    if kind == CONFIG_MAPS:
        bad += (
            {"metadata": {"annotations": {"a": "x" * 300_000}}},
            {"data": {"bad key": "v"}},
            {"data": {"k": 1}},
            {"data": ["k"]},
            {"binaryData": {"k": "not base64!"}},
        )
    elif kind == PODS:
        container = body["spec"]["containers"][0]
        bad += (
            {"spec": {"containers": []}}, {"spec": {"containers": [container, container]}},
            {"spec": {"restartPolicy": "Sometimes"}},
            {"spec": {"containers": [{**container, "env": [{"name": "A=B"}]}]}}, {"spec": {"hostname": "Bad_Host"}},
            {"spec": {"containers": [{**container, "env": [{"name": "A"}, {"name": "A"}]}]}},
            {"spec": {"containers": [{"name": "main"}]}},
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]}}, {"spec": {"nodeName": 5}},
            {"spec": {"containers": [{**container, "volumeMounts": [{"name": "none", "mountPath": "/x"}]}]}},
            {"spec": {"containers": [{**container, "ports": [{"containerPort": 70000}]}]}},
            {"spec": {"activeDeadlineSeconds": 0}},
            {"spec": {"containers": [{**container, "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]}},
            {"spec": {"containers": [{**container, "resources": {"requests": {"cpu": "many"}}}]}}, {"spec": {"priority": 5}},
            {"spec": {"terminationGracePeriodSeconds": -1}}, {"spec": {"dnsPolicy": "Mine"}},
            {"spec": {"priorityClassName": "missing"}},
        )  # fmt: skip
    elif kind == SERVICES:
        bad += (
            {"spec": {"ports": [{"port": 0}]}}, {"spec": {"ports": [{"port": 1}, {"port": 2}]}}, {"spec": {"type": "Odd"}},
            {"spec": {"ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}]}}, {"spec": {"clusterIP": "not-an-ip"}},
            {"spec": {"sessionAffinity": "Odd"}},
            {"spec": {"ports": [{"port": 1, "protocol": "ICMP"}]}}, {"spec": {"selector": {"a": "not ok!"}}},
        )  # fmt: skip
    elif kind == JOBS:
        bad += tuple({"spec": spec} for spec in _BAD_JOB_SPECS)
    else:
        bad += (
            {"spec": {"size": 101}}, {"spec": {"size": "big"}}, {"spec": {"mode": "Odd"}}, {"spec": {"tags": ["a", "a"]}},
            {"spec": None}, {"spec": {"parts": [{"name": "p"}, {"name": "p"}]}}, {"spec": {"parts": [{"weight": 1}]}},
            {"spec": {"replicas": 50}}, {"spec": {"limit": True}}, {"spec": {"size": None}}, {"spec": {"owner": "x" * 21}},
            {"spec": {"tags": list("abcdef")}},
        )  # fmt: skip
    change = rng.choice(bad)
    result = {**body}
    for key, value in change.items():
        result[key] = (
            {**result.get(key, {}), **value} if isinstance(value, dict) and isinstance(result.get(key, {}), dict) else value
        )
    return result


def changes(rng: random.Random, kind: Kind) -> Json:
    """A change as a merge patch; some of them are not allowed."""
    common: tuple[Json, ...] = (
        {"metadata": {"labels": {"app": rng.choice(_LABELS)}}},
        {"metadata": {"labels": {"tier": rng.choice((*_LABELS, None))}}},
        {"metadata": {"annotations": {"note": rng.choice(_LABELS)}}}, {"metadata": {"finalizers": None}},
        {"metadata": {"finalizers": [FINALIZER]}}, {}, {"metadata": {"name": "other"}}, {"metadata": {"generateName": "g-"}},
        {"metadata": {"ownerReferences": [_owner("o1", controller=True)]}},
        {"metadata": {"ownerReferences": [_owner("o1", controller=True), _owner("o2", controller=rng.random() < 0.5)]}},
        {"metadata": {"creationTimestamp": None}}, {"metadata": {"labels": None}}, {"status": {"phase": "Done"}},
    )  # fmt: skip
    if rng.random() < 0.5:
        return dict(rng.choice(common))
    return dict(rng.choice(_changes(rng, kind)))


def _changes(rng: random.Random, kind: Kind) -> tuple[Json, ...]:
    if kind == CONFIG_MAPS:
        return (
            {"data": {rng.choice("klm"): rng.choice("abc")}}, {"data": {"k": None}}, {"data": None}, {"immutable": True},
            {"binaryData": {"b": "AAEC"}}, {"data": {"k": 5}}, {"unknown": 1}, {"data": {"b": "both"}},
        )  # fmt: skip
    if kind == PODS:
        return (
            {"spec": {"containers": [{"name": "main", "image": rng.choice(("i:2", "i:3"))}]}},
            {"spec": {"activeDeadlineSeconds": 3}}, {"spec": {"restartPolicy": "OnFailure"}}, {"spec": {"nodeName": NODE}},
            {"spec": {"terminationGracePeriodSeconds": 7}}, {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}},
            {"spec": {"containers": [{"name": "more", "image": "i"}]}}, {"spec": {"schedulingGates": None}},
            {"spec": {"hostname": "other"}}, {"spec": {"activeDeadlineSeconds": None}},
        )  # fmt: skip
    if kind == SERVICES:
        return (
            {"spec": {"ports": [{"port": rng.choice((80, 81)), "name": "web"}]}},
            {"spec": {"selector": {"app": rng.choice(_LABELS)}}},
            {"spec": {"clusterIP": "10.97.1.1"}}, {"spec": {"type": "ClusterIP"}}, {"spec": {"publishNotReadyAddresses": True}},
            {"spec": {"selector": None}}, {"spec": {"sessionAffinity": "ClientIP"}}, {"spec": {"ports": [{"port": 80}]}},
        )  # fmt: skip
    if kind == JOBS:
        return (
            {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": rng.choice((1, 2, 5, -1))}}}},
            {"spec": {"tfReplicaSpecs": {"PS": rng.choice((_WORKER, None))}}},
            {"spec": {"runPolicy": {"suspend": rng.random() < 0.5}}}, {"spec": {"runPolicy": None}}, {"spec": {"unknown": 1}},
            {"spec": {"runPolicy": {"cleanPodPolicy": rng.choice(("All", "None", "Odd", None))}}},
            {"spec": {"tfReplicaSpecs": {"Worker": {"template": job_template(image=rng.choice("ij"))}}}},
            {"spec": {"tfReplicaSpecs": {"Worker": {"template": job_template(
                env=[{"name": rng.choice("AB"), "value": "v"}])}}}},
            {"spec": {"tfReplicaSpecs": {"Worker": {"restartPolicy": rng.choice(("Never", "Always", "Odd"))}}}},
            {"spec": {"successPolicy": rng.choice(("", "AllWorkers"))}}, {"spec": rng.choice(_BAD_JOB_SPECS)},
        )  # fmt: skip
    return (
        {"spec": {"size": rng.choice((1, 2, 50, 101, "many"))}}, {"spec": {"replicas": rng.choice((0, 1, 10, 11, 20))}},
        {"spec": {"mode": rng.choice(("Fast", "Slow", "Odd", None))}}, {"spec": {"owner": rng.choice(("me", "you", None))}},
        {"spec": {"tags": rng.choice((["a"], ["b", "a"], ["c", "c"], None))}}, {"spec": {"unknown": 1}},
        {"spec": {"nested": None}},
        {"spec": {"parts": rng.choice(([{"name": "p"}], [{"name": "q", "weight": 2}, {"name": "p"}], [{"weight": 1}], None))}},
        {"spec": {"limit": rng.choice((5, "5%", True))}}, {"spec": {"extra": {"k": rng.choice((1, None))}}},
        {"spec": {"nested": {"note": "n"}}}, {"status": {"replicas": 3}}, {"spec": None}, {"other": 1},
    )  # fmt: skip


def statuses(rng: random.Random, kind: Kind) -> Json:
    """A change of status, now and then of more than that."""
    if kind == PODS:
        ready = {"type": "Ready", "status": rng.choice(("True", "False"))}
        return dict(rng.choice((
            {"status": {"phase": rng.choice(("Running", "Succeeded", "Failed", "Pending"))}},
                {"status": {"conditions": [ready]}},
            {"status": {"phase": "Running", "podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]}},
                {"status": {"reason": "Evicted"}},
            {"status": {"phase": "Running"}, "spec": {"activeDeadlineSeconds": 1}}, {"status": {"message": rng.choice("mn")}},
            {"status": {"containerStatuses": [{"name": "main", "image": "i", "imageID": "", "ready": True,
                "restartCount": rng.randint(0, 2)}]}},
            {"metadata": {"labels": {"app": "z"}}, "status": {"phase": "Running"}},
                {"metadata": {"annotations": {"note": "s"}}},
        )))  # fmt: skip
    if kind == SERVICES:
        return dict(rng.choice((
            {"status": {"loadBalancer": {}}}, {"metadata": {"labels": {"app": "z"}}}, {"spec": {"selector": {"app": "z"}}},
            {"status": {"conditions": [{"type": "T", "status": "True", "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}},
        )))  # fmt: skip
    if kind == JOBS:
        condition = {"type": rng.choice(("Created", "Running", "Succeeded")), "status": "True", "reason": "R", "message": "m"}
        return dict(rng.choice((
            {"status": {"conditions": [condition]}}, {"status": {"conditions": [condition, {**condition, "type": "Failed"}]}},
            {"status": {"replicaStatuses": {"Worker": {"active": rng.randint(0, 3)}}}}, {"status": {"conditions": None}},
            {"status": {"startTime": "2026-01-01T00:00:00Z"}}, {"status": {"replicaStatuses": {"Worker": {"active": "one"}}}},
            {"status": {"conditions": [{"type": "Created"}]}}, {"status": {"unknown": 1}}, {"status": None},
        )))  # fmt: skip
    return dict(rng.choice((
        {"status": {"phase": rng.choice(("New", "Done", "Odd"))}}, {"status": {"replicas": rng.randint(0, 5)}},
        {"status": None}, {"status": {"replicas": 2, "selector": "app=x"}}, {"status": {"unknown": 1}},
        {"status": {"phase": "New"}, "spec": {"size": 9}},
        {"status": {"phase": "Done"}, "metadata": {"labels": {"app": "z"}, "finalizers": None}}, {"status": {"replicas": "2"}},
    )))  # fmt: skip


def operations(rng: random.Random, kind: Kind, change: Json, uid: Ref) -> list[Json]:
    """A change as a JSON patch; sometimes guarded by a test of the uid, sometimes with an operation that cannot work."""
    found: list[Json] = []
    for key, value in change.items():
        if not isinstance(value, dict):
            found.append(_operation(f"/{key}", value))
            continue
        found += [_operation(f"/{key}/{name}", inner) for name, inner in value.items()]
    if kind.plural == "configmaps" and rng.random() < 0.3:
        found.append({"op": "copy", "from": "/metadata/name", "path": "/data/copy"})
    if rng.random() < 0.2:
        found.insert(0, {"op": "test", "path": "/metadata/uid", "value": uid if rng.random() < 0.5 else "wrong"})
    if rng.random() < 0.1:
        found.append(rng.choice((
            {"op": "remove", "path": "/metadata/none"}, {"op": "replace", "path": "/none/none", "value": 1},
            {"op": "odd", "path": "/metadata"}, {"op": "add", "path": "/metadata/labels/deep~1er", "value": "v"},
        )))  # fmt: skip
    return found


def _operation(path: str, value: Any) -> Json:
    return {"op": "remove", "path": path} if value is None else {"op": "add", "path": path, "value": value}
