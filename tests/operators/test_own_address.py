"""A pod's own address in its own namespaces: with /etc/hosts as a kubelet writes it, and without a name server."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobcommon.api.observed import Observed
from jobcommon.framework import SERVICE_PER_REPLICA, Framework, Options
from jobcommon.operators.jax import JAX
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.reconcile import Create, plan
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, job_manifest

IP = "10.244.0.7"
UNSHARE = ["unshare", *(["--map-root-user"] if os.geteuid() else []), "--net", "--uts", "--mount", "sh", "-ec"]
POD = """
mount --bind {hosts} /etc/hosts; mount --bind {resolver} /etc/resolv.conf
hostname "$1"; shift; ip link set lo up; ip address add {ip}/32 dev lo
exec "$@"
"""
# What programs do with an address of their own: XGBoost's tracker binds it, others connect to it or look for it among theirs.
BINDS = """
import os, re, socket
own = re.compile(re.escape(socket.gethostname()) + r"(?![\\w-])[\\w.-]*")
for name in sorted({name for text in os.environ.values() for name in own.findall(text)}):
    with socket.create_server((name, 0)) as server, socket.create_connection((name, server.getsockname()[1])):
        print(name, server.getsockname()[0])
"""


def in_pod(pod: dict[str, Any], where: Path, *command: str) -> subprocess.CompletedProcess[str]:
    spec, files = pod["spec"], {"hosts": where / "hosts", "resolver": where / "resolv.conf"}
    name, domain = spec["hostname"], f"{spec['subdomain']}.default.svc.cluster.local"
    files["hosts"].write_text(f"127.0.0.1\tlocalhost\n{IP}\t{name}.{domain}\t{name}\n")
    files["resolver"].write_text(f"nameserver 127.0.0.1\nsearch {domain}\noptions timeout:1 attempts:1\n")
    env = {one["name"]: one["value"] for one in spec["containers"][0].get("env") or () if "value" in one}
    inside = [*UNSHARE, POD.format(ip=IP, **files), "sh", name, sys.executable, *command]
    if subprocess.run([*UNSHARE, "ip link set lo up"], capture_output=True, check=False).returncode:
        pytest.skip("namespaces are not permitted, or there is no command ip")
    return subprocess.run(
        inside, env={"PATH": os.environ["PATH"], **env}, capture_output=True, text=True, check=False, timeout=100
    )


def pod_of(framework: Framework, replicas: dict[str, int], name: str, **job: Any) -> dict[str, Any]:
    decided = plan(framework, read_job(framework, job_manifest(framework, replicas, **job)), Observed(), START)
    return json.loads(
        json.dumps(
            next(dict(a.manifest) for a in decided.actions if isinstance(a, Create) and a.plural == "pods" and a.name == name)
        )
    )


@pytest.mark.parametrize("domain", ["", "corp.local"])
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize(("framework", "replicas", "name"), [
    (PYTORCH, {"Master": 1, "Worker": 1}, "demo-master-0"), (XGBOOST, {"Master": 1, "Worker": 2}, "demo-master-0"),
    (XGBOOST, {"Master": 1, "Worker": 12}, "demo-worker-1"), (TF, {"Chief": 1, "PS": 1, "Worker": 2}, "demo-worker-1"),
    (JAX, {"Worker": 2}, "demo-worker-0"),
    (MXNET, {"Scheduler": 1, "Server": 1, "Worker": 2}, "demo-scheduler-0"),
])  # fmt: skip
def test_it_resolves_by_itself(
    framework: Framework, replicas: dict[str, int], name: str, each: bool, domain: str, tmp_path: Path
) -> None:
    framework = replace(framework, options=Options(cluster_domain=domain))
    pod = pod_of(framework, replicas, name, annotations={SERVICE_PER_REPLICA: "true"} if each else {})
    done = in_pod(pod, tmp_path, "-c", BINDS)
    assert (done.stdout, done.stderr) == (f"{name} {IP}\n", "")
