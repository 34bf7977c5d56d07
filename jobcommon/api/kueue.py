"""Names of Kueue's objects, and the one view of its Workload. Facts: Kueue 0.19, kueue.x-k8s.io/v1beta2."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import yaml

from jobcommon.api import labels
from jobcommon.api.status import MAX_COUNT
from jobcommon.api.template import mapping_of, mappings_in
from jobcommon.api.view import ObjectView

OWN = "own"
"""The value of ``--kueue`` by which the operator owns the Workloads of jobs."""
KUEUE_API = "kueue.x-k8s.io/v1beta2"
KUEUE_WORKLOAD, KUEUE_WORKLOADS = "Workload", "workloads.kueue.x-k8s.io"
"""The plural is qualified by its group: Kubernetes' own gang scheduling has Workloads, too."""
FLAVORS = "resourceflavors"
WORKLOAD_PRIORITY, WORKLOAD_PRIORITIES = "WorkloadPriorityClass", "workloadpriorityclasses"
CLUSTER_WIDE = (FLAVORS, WORKLOAD_PRIORITIES)
POD_PRIORITY = "PriorityClass"
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
"""The value of managedBy of a job that MultiKueue runs in another cluster."""

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
MAX_TIME_LABEL = "kueue.x-k8s.io/max-exec-time-seconds"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
"""The annotation of a job with the name of its Workload, which others made; without it, the label."""
JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
PROVISIONING_PREFIX = "provreq.kueue.x-k8s.io/"

# On pods.
POD_SET_LABEL = "kueue.x-k8s.io/podset"
LOCAL_QUEUE_LABEL = "kueue.x-k8s.io/local-queue-name"
CLUSTER_QUEUE_LABEL = "kueue.x-k8s.io/cluster-queue-name"
WORKLOAD_ANNOTATION = "kueue.x-k8s.io/workload"
TOPOLOGY_GATE = "kueue.x-k8s.io/topology"
INDEX_OFFSET = "kueue.x-k8s.io/pod-index-offset"
UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"
GROUP_NAME = "kueue.x-k8s.io/podset-group-name"
SLICE_SIZE = "kueue.x-k8s.io/podset-slice-size"
REQUIRED, PREFERRED = "kueue.x-k8s.io/podset-required-topology", "kueue.x-k8s.io/podset-preferred-topology"
TOPOLOGY = {
    REQUIRED: "required",
    PREFERRED: "preferred",
    "kueue.x-k8s.io/podset-slice-required-topology": "podSetSliceRequiredTopology",
}
"""The annotations of a template, and the fields of a podSet's topologyRequest that they become."""

POD_SETS = labels.PREFIX + "pod-sets"
"""Our annotation of a Workload: a digest of the podSets for which it asks."""

INTEGRATED = frozenset(f"kubeflow.org/{kind}job" for kind in ("tf", "pytorch", "mpi", "xgboost", "paddle", "jax"))
"""The integrations that Kueue has of kinds of ours, on or off: its own role lets it read these kinds and no others."""

NAMESPACE, CONFIGURATION = "kueue-system", "kueue-manager-config"
ACCOUNT = "kueue-controller-manager"
"""Kueue's ServiceAccount, in that namespace."""
CONFIGURATION_PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIGURATION}"
"""Where Kueue's manifests and its Helm chart put its configuration."""


def number_of(text: str) -> int:
    """The number in a label or an annotation; 0 for what Kueue's API, which has 32 bits for it, does not take."""
    return number if len(text) < 11 and text.isdecimal() and (number := int(text)) <= MAX_COUNT else 0


def integration_of(api_version: str, kind: str) -> str:
    """The name of Kueue's own integration of a kind, in `integrations.frameworks`."""
    return f"{api_version.partition('/')[0]}/{kind.lower()}"


def external_name_of(api_version: str, kind: str) -> str:
    """The name of a kind whose owner makes the Workloads, in `integrations.externalFrameworks`."""
    group, _, version = api_version.partition("/")
    return f"{kind}.{version}.{group}"


class Integrations(NamedTuple):
    """The kinds that Kueue queues itself, and those whose owners make Workloads, as its configuration names them."""

    frameworks: frozenset[str]
    external: frozenset[str]


def integrations(configuration: Mapping[str, Any]) -> Integrations | None:
    """What the ConfigMap with Kueue's configuration says of kinds; None for one that cannot be read."""
    try:
        document = yaml.safe_load(str(mapping_of(configuration.get("data")).get("controller_manager_config.yaml", "")))
        found = document.get("integrations") or {}
        return Integrations(*(frozenset(map(str, found.get(key) or ())) for key in ("frameworks", "externalFrameworks")))
    except (yaml.YAMLError, AttributeError, TypeError):
        return None


def prebuilt_name(job_labels: Mapping[str, Any], annotations: Mapping[str, Any]) -> str:
    """The name of the Workload that others have made for the job; "" for none."""
    return str(annotations.get(PREBUILT) or job_labels.get(PREBUILT) or "")


@dataclass(frozen=True)
class Workload:
    """A Workload as it is."""

    view: ObjectView

    @cached_property
    def raw(self) -> dict[str, Any]:
        """The whole object. It must not be changed."""
        return self.view.raw

    @property
    def spec(self) -> Mapping[str, Any]:
        """Its spec."""
        return mapping_of(self.raw.get("spec"))

    @property
    def status(self) -> Mapping[str, Any]:
        """Its status."""
        return mapping_of(self.raw.get("status"))

    @cached_property
    def conditions(self) -> Mapping[str, Mapping[str, Any]]:
        """Its conditions by type."""
        return {str(c.get("type")): c for c in mappings_in(self.status.get("conditions"))}

    def has(self, kind: str) -> bool:
        """Whether the condition is True."""
        return self.conditions.get(kind, {}).get("status") == "True"

    @property
    def admitted(self) -> bool:
        """Whether the job may run."""
        stopped = self.has("Evicted") or self.has("Finished") or self.view.deleting or self.spec.get("active") is False
        return self.has("Admitted") and not stopped

    @property
    def blocked(self) -> Mapping[str, Any]:
        """The condition that says why it is not admitted (KEP-10852); empty without one."""
        if self.has("Evicted") and self.has("QuotaReserved"):
            return self.conditions["Evicted"]
        asked = self.has("QuotaReserved") or self.conditions.get("Evicted", {}).get("reason") == "AdmissionCheck"
        checks = mappings_in(self.status.get("admissionChecks")) if asked else ()
        if (waits := next((check for check in checks if check.get("state") != "Ready"), None)) is not None:
            return {**waits, "reason": f"the admission check {waits.get('name')} is {waits.get('state')}"}
        order = (("Finished", "True"), ("QuotaReserved", "False"), ("Admitted", "False"))
        return next((one for kind, status in order if (one := self.conditions.get(kind, {})).get("status") == status), {})

    @property
    def why_not_admitted(self) -> str:
        """What Kueue says about one that is not admitted, its reason first."""
        if found := self.blocked:
            return f"{found.get('reason')}: {found.get('message')}"
        return "spec.active of its Workload is false" if self.spec.get("active") is False else "not yet considered"

    @property
    def assignments(self) -> Mapping[str, Mapping[str, Any]]:
        """What is assigned to each podSet, by name."""
        found = mappings_in(mapping_of(self.status.get("admission")).get("podSetAssignments"))
        return {str(one.get("name")): one for one in found}

    @property
    def reclaimable(self) -> Mapping[str, int]:
        """The pods of each podSet whose quota was given back, by name."""
        found = mappings_in(self.status.get("reclaimablePods"))
        return {str(one.get("name")): int(one.get("count") or 0) for one in found}

    @property
    def counts(self) -> Mapping[str, Any]:
        """The number of pods of each podSet, by name."""
        return {str(one.get("name")): one.get("count", 1) for one in mappings_in(self.spec.get("podSets"))}
