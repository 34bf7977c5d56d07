"""An operator in kopf, for the tests of the pytest plugin: `kopf run` executes this file."""

import os
from pathlib import Path
from typing import Any

import kopf
from kubernetes import client, config

PLURAL = "greetings"


@kopf.on.startup()
def quickly(settings: kopf.OperatorSettings, **_: Any) -> None:
    config.load_kube_config()
    settings.posting.level = 100
    # kopf makes a certificate of its own only with libraries that do not know newer releases of OpenSSL.
    folder = Path(os.environ["CERTIFICATE"])
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1", certfile=folder / "crt.pem", pkeyfile=folder / "key.pem", cafile=folder / "crt.pem"
    )
    settings.admission.managed = "admission.kopf.example.com"


@kopf.on.validate(PLURAL)
def polite(spec: kopf.Spec, warnings: list[str], **_: Any) -> None:
    if spec["whom"] == "nobody":
        raise kopf.AdmissionError("a greeting needs an addressee", code=451)
    warnings.append("greetings are checked")


@kopf.on.mutate(PLURAL)
def signed(patch: kopf.Patch, **_: Any) -> None:
    patch.spec["signed"] = "kopf"


@kopf.index("configmaps", labels={"greeting": kopf.PRESENT})
def children(name: str, labels: kopf.Labels, **_: Any) -> dict[str, str]:
    return {labels["greeting"]: name}


@kopf.on.create(PLURAL)
def created(spec: kopf.Spec, name: str, namespace: str, **_: Any) -> str:
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-child", "labels": {"greeting": name}}}
    kopf.adopt(child)
    client.CoreV1Api().create_namespaced_config_map(namespace, child)
    return f"hello {spec['whom']}"


@kopf.on.create(PLURAL)
def retried(retry: int, **_: Any) -> int:
    if retry < 1:
        raise kopf.TemporaryError("not yet", delay=0.1)
    return retry


@kopf.on.update(PLURAL, field="spec.whom")
def updated(old: str, new: str, patch: kopf.Patch, **_: Any) -> None:
    patch.status["updated"] = f"{old} became {new}"


@kopf.timer(PLURAL, interval=0.5)
def indexed(children: kopf.Index[str, str], name: str, patch: kopf.Patch, **_: Any) -> None:
    patch.status["children"] = ",".join(children.get(name, ()))


# By default kopf checks only once a minute whether a daemon in a thread has ended.
@kopf.daemon(PLURAL, cancellation_polling=0.1)
def followed(stopped: kopf.DaemonStopped, patch: kopf.Patch, name: str, namespace: str, **_: Any) -> None:
    stopped.wait()
    _record(f"{name}-was-followed", namespace)


@kopf.on.delete(PLURAL)
def deleted(name: str, namespace: str, **_: Any) -> None:
    _record(f"{name}-was-deleted", namespace)


def _record(name: str, namespace: str) -> None:
    """Create a ConfigMap, unless a former run of the handler has: kopf may run it again while a daemon ends."""
    try:
        client.CoreV1Api().create_namespaced_config_map(namespace, {"metadata": {"name": name}})
    except client.ApiException as error:
        if error.status != 409:
            raise
