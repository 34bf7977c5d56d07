"""What a pod needs to report the progress of its program, in the protocol of Kubeflow Trainer (KEP-2779).

The names of the variables, of the volume and of the paths are Trainer's (pkg/runtime/framework/plugins/trainjobstatus). The
address and the audience name the job's own kind, because jobs of several kinds may have one name. The certificate comes from an
annotation of the pod itself, so that no job needs a ConfigMap for it.
"""

from typing import Any

from jobcommon.api import labels
from jobcommon.framework import EnvVar, Framework, Job

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


def variables(framework: Framework, job: Job) -> list[EnvVar]:
    """The variables by which a program finds the server."""
    if job.options.progress is None or not reports(job):
        return []
    where = audience(framework.api_version, job.namespace, framework.plural, job.name)
    url = f"{job.options.progress.url.rstrip('/')}/apis/{where}"
    return [EnvVar(URL, url), EnvVar(CA_CERT, f"{DIRECTORY}/ca.crt"), EnvVar(TOKEN, f"{DIRECTORY}/token")]


def add_credentials(framework: Framework, job: Job, pod: dict[str, Any], main: str) -> None:
    """Mount the certificate and the token into the main container of `pod`, a manifest."""
    if job.options.progress is None or not reports(job):
        return
    pod["metadata"].setdefault("annotations", {})[labels.PROGRESS_CA] = job.options.progress.certificate
    spec = pod["spec"]
    who = audience(framework.api_version, job.namespace, framework.plural, job.name)
    token = {"audience": who, "expirationSeconds": TOKEN_SECONDS, "path": "token"}
    authority = {"path": "ca.crt", "fieldRef": {"fieldPath": f"metadata.annotations['{labels.PROGRESS_CA}']"}}
    sources = [{"serviceAccountToken": token}, {"downwardAPI": {"items": [authority]}}]
    others = [volume for volume in spec.get("volumes") or () if volume.get("name") != VOLUME]
    spec["volumes"] = [*others, {"name": VOLUME, "projected": {"sources": sources}}]
    spec["containers"] = [_with_mount(c) if c.get("name") == main else c for c in spec["containers"]]


def _with_mount(container: dict[str, Any]) -> dict[str, Any]:
    kept = [mount for mount in container.get("volumeMounts") or () if mount.get("name") != VOLUME]
    return {**container, "volumeMounts": [*kept, {"name": VOLUME, "mountPath": DIRECTORY, "readOnly": True}]}
