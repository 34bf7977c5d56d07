"""What a pod needs to report the progress of its program, in the protocol of Kubeflow Trainer (KEP-2779).

The names of the variables, of the volume and of the paths are Trainer's (pkg/runtime/framework/plugins/trainjobstatus). The
address and the audience name the job's own kind, because jobs of several kinds may have one name. The certificate comes from an
annotation of the pod itself, so that no job needs a ConfigMap for it.
"""

from collections.abc import Iterable
from typing import Any

from jobcommon.api import labels, reasons
from jobcommon.api.replica import Replica
from jobcommon.framework import EnvVar, Job
from jobcommon.reconcile.children import with_env
from jobcommon.reconcile.extension import Extension
from jobcommon.reconcile.plan import WARNING, Event
from jobcommon.reconcile.situation import Situation

URL, CA_CERT, TOKEN = "KUBEFLOW_TRAINER_SERVER_URL", "KUBEFLOW_TRAINER_SERVER_CA_CERT", "KUBEFLOW_TRAINER_SERVER_TOKEN"
VOLUME = "kubeflow-trainer-token"
DIRECTORY = "/var/run/secrets/kubeflow/trainer"
TOKEN_SECONDS = 3600


def audience(api_version: str, namespace: str, plural: str, name: str) -> str:
    """The audience of the tokens with which the pods of one job report."""
    return f"{api_version}/namespaces/{namespace}/{plural}/{name}/status"


def reports(job: Job) -> bool:
    """Whether the job's programs are asked to report, and this operator takes reports."""
    return bool(job.run_policy.report_progress) and job.options.progress is not None


class Reporting(Extension):
    """What makes the programs of a job report, in one pass."""

    def __init__(self, view: Situation) -> None:
        self._framework, self._job = view.framework, view.job

    def shape(self, replica: Replica, pod: dict[str, Any]) -> dict[str, Any]:
        """The pod with the certificate, the token, and the variables by which its program finds the server."""
        framework, job, server = self._framework, self._job, self._job.options.progress
        if server is None or not reports(job):
            return pod
        who = audience(framework.api_version, job.namespace, framework.plural, job.name)
        token = {"audience": who, "expirationSeconds": TOKEN_SECONDS, "path": "token"}
        authority = {"path": "ca.crt", "fieldRef": {"fieldPath": f"metadata.annotations['{labels.PROGRESS_CA}']"}}
        sources = [{"serviceAccountToken": token}, {"downwardAPI": {"items": [authority]}}]
        url = EnvVar(URL, f"{server.url.rstrip('/')}/apis/{who}")
        variables = (url, EnvVar(CA_CERT, f"{DIRECTORY}/ca.crt"), EnvVar(TOKEN, f"{DIRECTORY}/token"))
        metadata, spec = pod["metadata"], pod["spec"]
        main = framework.main_container(job.replica_specs[replica.type], replica.index)
        volumes = [volume for volume in spec.get("volumes") or () if volume.get("name") != VOLUME]
        containers = [
            with_env(_with_mount(container), variables) if container.get("name") == main else container
            for container in spec["containers"]
        ]
        annotations = {**(metadata.get("annotations") or {}), labels.PROGRESS_CA: server.certificate}
        volumes.append({"name": VOLUME, "projected": {"sources": sources}})
        return {
            **pod,
            "metadata": {**metadata, "annotations": annotations},
            "spec": {**spec, "volumes": volumes, "containers": containers},
        }

    def events(self) -> Iterable[Event]:
        """One event if the job asks for reports and the operator takes none."""
        if self._job.run_policy.report_progress and self._job.options.progress is None:
            text = "reportProgress has no effect: the operator takes no reports"
            yield Event(WARNING, reasons.NO_PROGRESS_SERVER, text, lasting=True)


def _with_mount(container: dict[str, Any]) -> dict[str, Any]:
    kept = [mount for mount in container.get("volumeMounts") or () if mount.get("name") != VOLUME]
    return {**container, "volumeMounts": [*kept, {"name": VOLUME, "mountPath": DIRECTORY, "readOnly": True}]}
