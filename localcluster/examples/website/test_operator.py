"""The tests of an operator as they are with envtest, plus what envtest lacks: pods that run, and faults.

Run in this directory by ``pytest`` after ``pip install 'jobcommon-localcluster[testing]' kubernetes``.
"""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import config
from operator_of_websites import Operator

from localcluster.testing.kubernetes_api import KubectlError

HERE = Path(__file__).parent


@pytest.fixture
def cluster(kubernetes_api, kubernetes_kubelet):
    """A fresh Kubernetes API with our kind, and a node whose pods are played."""
    kubernetes_api.kubectl("apply", "-f", str(HERE / "crd.yaml"))
    return kubernetes_api


@pytest.fixture
def operator(cluster) -> Iterator[Operator]:
    config.load_kube_config()
    operator = Operator()
    thread = threading.Thread(target=operator.run)
    thread.start()
    yield operator
    operator.stop()
    thread.join()


def website(text: str) -> str:
    body = {"apiVersion": "example.com/v1", "kind": "Website", "metadata": {"name": "mine"}, "spec": {"text": text}}
    return json.dumps(body)


def serves(cluster, text: str) -> None:
    """Wait until one pod runs, the one with that text."""
    version = Operator.version_of(text)
    cluster.kubectl("wait", f"configmap/mine-{version}", "--for=create", "--timeout=60s")
    cluster.kubectl("wait", "website/mine", f"--for=jsonpath={{.status.version}}={version}", "--timeout=60s")
    cluster.kubectl("wait", f"pod/mine-{version}", "--for=condition=Ready", "--timeout=60s")


def test_a_website_is_served(cluster, operator):
    cluster.kubectl("apply", "-f", "-", stdin=website("hello"))
    serves(cluster, "hello")


def test_a_new_text_gets_a_new_pod(cluster, operator):
    cluster.kubectl("apply", "-f", "-", stdin=website("hello"))
    serves(cluster, "hello")
    cluster.kubectl("apply", "-f", "-", stdin=website("good bye"))
    serves(cluster, "good bye")
    cluster.kubectl("wait", f"pod/mine-{Operator.version_of('hello')}", "--for=delete", "--timeout=60s")


def test_everything_goes_with_the_website(cluster, operator):
    cluster.kubectl("apply", "-f", "-", stdin=website("hello"))
    serves(cluster, "hello")
    cluster.kubectl("delete", "website", "mine", "--timeout=60s")
    cluster.kubectl("wait", "pods,configmaps", "-l", "website=mine", "--for=delete", "--timeout=60s")


def test_the_schema_has_an_opinion(cluster):
    with pytest.raises(KubectlError, match="no blinking"):
        cluster.kubectl("apply", "-f", "-", stdin=website("<blink>"))


@pytest.mark.parametrize("code", [409, 429, 500, 504])
def test_refused_writes_are_repeated(cluster, operator, kubernetes_faults, code):
    kubernetes_faults.fail(code, path="/(configmaps|pods|status)", count=5, stored=code == 504)
    cluster.kubectl("apply", "-f", "-", stdin=website("hello"))
    serves(cluster, "hello")


def test_a_lost_watch_and_a_compacted_history_do_no_harm(cluster, operator, kubernetes_faults):
    cluster.kubectl("apply", "-f", "-", stdin=website("hello"))
    serves(cluster, "hello")
    kubernetes_faults.drop_watches()
    cluster.kubectl("apply", "-f", "-", stdin=website("good bye"))
    kubernetes_faults.compact()
    serves(cluster, "good bye")
