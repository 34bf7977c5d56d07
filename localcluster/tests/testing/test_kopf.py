"""An operator that is nothing of ours, on the API of the pytest plugin: handlers, retries, a timer, a daemon, an index."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.certificates import self_signed
from localcluster.testing.kubernetes_api import KubectlError, KubernetesApi

pytestmark = pytest.mark.cluster

OPERATOR = Path(__file__).with_name("kopf_operator.py")
VERSION = {
    "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
}  # fmt: skip
NAMES = {"kind": "Greeting", "plural": "greetings", "singular": "greeting"}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "greetings.example.com"},
    "spec": {"group": "example.com", "scope": "Namespaced", "names": NAMES, "versions": [VERSION]},
}  # fmt: skip
GREETING = {"apiVersion": "example.com/v1", "kind": "Greeting", "metadata": {"name": "g"}, "spec": {"whom": "world"}}
SOURCE = os.environ.get("KOPF_SOURCE")


@pytest.fixture
def operator(kubernetes_api: KubernetesApi, tmp_path: Path) -> Iterator[Path]:
    """The operator's log while it runs."""
    kubernetes_api.kubectl("apply", "-f", "-", stdin=json.dumps(DEFINITION))
    kubernetes_api.kubectl("wait", "--for=condition=Established", "crd/greetings.example.com", "--timeout=120s")
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "--all-namespaces", "--verbose", str(OPERATOR)]
    log = tmp_path / "operator.log"
    certificate = self_signed()
    (tmp_path / "crt.pem").write_bytes(certificate.pem)
    (tmp_path / "key.pem").write_bytes(certificate.key)
    env = {**kubernetes_api.env, "CERTIFICATE": str(tmp_path)}
    with log.open("w") as output, subprocess.Popen(command, env=env, stdout=output, stderr=output) as process:
        # Before kopf has registered its webhook for them, greetings would not be checked.
        wait = ("--for=create", "mutatingwebhookconfiguration/admission.kopf.example.com", "--timeout=120s")
        kubernetes_api.kubectl("wait", *wait)
        yield log
        process.terminate()
        assert process.wait(120) == 0, log.read_text()


def test_an_operator_in_kopf(kubernetes_api: KubernetesApi, operator: Path) -> None:
    def reaches(path: str, value: str) -> None:
        kubernetes_api.kubectl("wait", "greeting/g", f"--for=jsonpath={{.status.{path}}}={value}", "--timeout=120s")

    kubernetes_api.kubectl("apply", "-f", "-", stdin=json.dumps(GREETING))
    reaches("created", "hello world")
    assert kubernetes_api.kubectl("get", "greeting", "g", "-o", "jsonpath={.spec.signed}") == "kopf"
    refused = {**GREETING, "metadata": {"name": "h"}, "spec": {"whom": "nobody"}}
    with pytest.raises(KubectlError, match="needs an addressee"):
        kubernetes_api.kubectl("create", "-f", "-", stdin=json.dumps(refused))
    reaches("retried", "1")
    reaches("children", "g-child")
    kubernetes_api.kubectl("patch", "greeting", "g", "--type=merge", "--patch", '{"spec": {"whom": "moon"}}')
    reaches("updated", "world became moon")
    # Returns when the finalizer of the handlers and of the daemon is gone.
    kubernetes_api.kubectl("delete", "greeting", "g", "--timeout=120s")
    kubernetes_api.kubectl("wait", "--for=delete", "configmap/g-child", "--timeout=120s")
    left = kubernetes_api.kubectl("get", "configmaps", "--output=name").split()
    assert left == ["configmap/g-was-deleted", "configmap/g-was-followed", "configmap/kube-root-ca.crt"]
    assert "Traceback" not in operator.read_text()


@pytest.mark.slow
@pytest.mark.skipif(SOURCE is None, reason="runs if KOPF_SOURCE names the unpacked source of kopf: make kopf")
def test_kopf_s_own_examples(tmp_path: Path) -> None:
    """Its end-to-end tests as they are; `kopf_session` makes the certificate of the webhook."""
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "kopf_session", "--only-e2e", "--timeout=120",
        # Of connections that its operators leave open.
        "-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning", "tests/e2e", "examples",
    ]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    ran = subprocess.run(command, cwd=SOURCE, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
