"""The pods that Trainer 2.3 with JobSet 0.12 and the Job controller make of a TrainJob, as far as its eight runtimes go.

Written from what their builders do, to compare ours with: it shares nothing with the operator.
"""

import copy
from hashlib import sha1
from typing import Any

Json = dict[str, Any]
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
PORT = {"containerPort": 29500}
INDEX_KEY = "batch.kubernetes.io/job-completion-index"
INDEX = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX_KEY}']"}}


def pods(job: Json, runtime: Json) -> dict[str, Json]:
    """By host name. `replicas` is 1 for each replicated job."""
    name, spec = job["metadata"]["name"], runtime["spec"]
    jobset, policy, trainer = copy.deepcopy(spec["template"]["spec"]), spec["mlPolicy"], job["spec"]["trainer"]
    jobs = {one["name"]: one for one in jobset["replicatedJobs"]}
    steps = {role: one["template"].get("metadata", {}).get("labels", {}).get(STEP, "") for role, one in jobs.items()}
    counts = {role: policy.get("numNodes", 1) if steps[role] == "trainer" else 1 for role in jobs}
    launcher_is_node = policy.get("mpi", {}).get("runLauncherAsNode", False)
    scaled = "node" if "mpi" in policy else next(role for role, step in steps.items() if step == "trainer")
    if "numNodes" in trainer:
        counts[scaled] = max(trainer["numNodes"] - 1, 1) if launcher_is_node else trainer["numNodes"]
    for role, one in jobs.items():
        pod = one["template"]["spec"]["template"]["spec"]
        main = next(container for container in pod["containers"] if container["name"] in ("node", role))
        if steps[role] == "trainer":
            main |= {key: trainer[key] for key in ("image", "command", "args") if key in trainer}
        if steps[role] == "trainer" or (launcher_is_node and role == "node"):
            resources = trainer.get("resourcesPerNode", {})
            if resources:
                main["resources"] = main.get("resources", {}) | resources
            _upsert(main, trainer.get("env", []))
        if "mpi" in policy:
            _mpi(name, role, pod, main, policy["mpi"], trainer)
        elif steps[role] == "trainer":
            _upsert(main, _variables(f"{name}-node-0-0.{name}", policy, counts[role], main, trainer))
            main.setdefault("ports", []).append(PORT)
        for claim in (t["metadata"]["name"] for p in jobset.get("volumeClaimPolicies", ()) for t in p["templates"]):
            if any(mount["name"] == claim for mount in main.get("volumeMounts", ())):
                pod.setdefault("volumes", []).append({"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{name}"}})
    made = {}
    for number, (role, one) in enumerate(jobs.items()):
        template = one["template"]["spec"]["template"]
        for index in range(counts[role]):
            made[f"{name}-{role}-0-{index}"] = _pod(job, template, role, len(jobs), number, index)
    return made


def beside(job: Json, runtime: Json) -> set[str]:
    """The other objects, as plural and name, but for the kinds that JobSet is made of."""
    name, spec = job["metadata"]["name"], runtime["spec"]
    claims = (
        claim["metadata"]["name"]
        for one in spec["template"]["spec"].get("volumeClaimPolicies", ())
        for claim in one["templates"]
    )
    found = {
        f"services {name}",
        f"configmaps {name}-runtime-snapshot",
        *(f"persistentvolumeclaims {one}-{name}" for one in claims),
    }
    return found | ({f"secrets {name}-mpi-ssh-auth", f"configmaps {name}-mpi-hostfile"} if "mpi" in spec["mlPolicy"] else set())


def _variables(first: str, policy: Json, nodes: int, main: Json, trainer: Json) -> list[Json]:
    resources = trainer.get("resourcesPerNode", main.get("resources", {}))
    gpus = next((int(n) for part in resources.values() for key, n in part.items() if "gpu" in key), 0)
    if "torch" in policy:
        processes = trainer.get("numProcPerNode", "auto" if gpus else max(1, int(resources.get("limits", {}).get("cpu", 0))))
        values = {"PET_NNODES": nodes, "PET_NPROC_PER_NODE": processes, "PET_NODE_RANK": INDEX}
        values |= {"PET_MASTER_ADDR": first, "PET_MASTER_PORT": 29500}
    elif "jax" in policy:
        values = {"JAX_NUM_PROCESSES": nodes, "JAX_PROCESS_ID": INDEX, "JAX_COORDINATOR_ADDRESS": f"{first}:29500"}
    else:
        values = {"DMLC_TRACKER_URI": first, "DMLC_TRACKER_PORT": 29500, "DMLC_TASK_ID": INDEX}
        values |= {"DMLC_NUM_WORKER": nodes * max(gpus, 1)}
    return [{"name": k, "valueFrom": v} if isinstance(v, dict) else {"name": k, "value": str(v)} for k, v in values.items()]


def _mpi(name: str, role: str, pod: Json, main: Json, policy: Json, trainer: Json) -> None:
    files = (
        ("ssh-privatekey", "id_rsa", 0o640),
        ("ssh-publickey", "id_rsa.pub", 0o644),
        ("ssh-publickey", "authorized_keys", 0o644),
    )
    items = [{"key": key, "path": path, "mode": mode} for key, path, mode in files]
    secret = {"secretName": f"{name}-mpi-ssh-auth", "defaultMode": 0o400, "items": items}
    pod["volumes"] = [{"name": "mpi-ssh-auth", "secret": secret}]
    main["volumeMounts"] = [{"name": "mpi-ssh-auth", "mountPath": policy["sshAuthMountPath"]}]
    if role != "launcher":
        return
    config = {"name": f"{name}-mpi-hostfile", "items": [{"key": "hostfile", "path": "hostfile", "mode": 0o444}]}
    pod["volumes"].append({"name": "mpi-hostfile", "configMap": config})
    main["volumeMounts"].append({"name": "mpi-hostfile", "mountPath": "/etc/mpi"})
    values = {"default_hostfile": "/etc/mpi/hostfile", "keep_fqdn_hostnames": "true"}
    values |= {"set_default_slots": str(trainer.get("numProcPerNode", policy["numProcPerNode"]))}
    _upsert(main, [{"name": f"OMPI_MCA_orte_{key}", "value": value} for key, value in values.items()])
    _upsert(main, [{"name": "OMPI_MCA_plm_rsh_args", "value": "-o ConnectionAttempts=10"}])


def _pod(job: Json, template: Json, role: str, roles: int, number: int, index: int) -> Json:
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    job_name = f"{name}-{role}-0"
    jobset = {
        "jobset-name": name, "jobset-uid": uid, "replicatedjob-name": role, "replicatedjob-replicas": "1",
        "global-replicas": str(roles), "restart-attempt": "0", "job-index": "0", "job-global-index": str(number),
        "job-key": sha1(f"{job['metadata']['namespace']}/{job_name}".encode(), usedforsecurity=False).hexdigest(),
        "group-name": "default", "group-replicas": str(roles), "job-group-index": str(number),
    }  # fmt: skip
    both = {**{f"jobset.sigs.k8s.io/{key}": value for key, value in jobset.items()}, INDEX_KEY: str(index)}
    of_job = {"controller-uid": uid, "job-name": job_name}
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job_name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {
        "namespace": job["metadata"]["namespace"],
        "ownerReferences": [owner],
        "name": f"{job_name}-{index}-<random>",
        "labels": {**both, **of_job, **{f"batch.kubernetes.io/{key}": value for key, value in of_job.items()}},
        "annotations": both,
        "finalizers": ["batch.kubernetes.io/job-tracking"],
    }
    spec = copy.deepcopy(template["spec"]) | {"hostname": f"{job_name}-{index}", "subdomain": name}
    spec.setdefault("restartPolicy", "OnFailure")
    for container in spec["containers"]:
        container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "valueFrom": INDEX})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _upsert(container: Json, variables: list[Json]) -> None:
    found = {one["name"]: one for one in container.get("env", [])} | {one["name"]: one for one in variables}
    container["env"] = list(found.values())
