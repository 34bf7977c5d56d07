"""The built-in resources: one table, in the order in which discovery lists them."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from localcluster.apiserver import names
from localcluster.apiserver.crd import default_crd
from localcluster.apiserver.kinds import (
    config,
    crds,
    events,
    namespaces,
    pods,
    rbac,
    services,
)
from localcluster.apiserver.resource import REVIEW_VERBS, Resource, Scale, Strategy, field_table

Obj = dict[str, Any]
_ALL = ("all",)
_EXTENSIONS = ("api-extensions",)


def _workload(group: str, plural: str, kind: str, **more: Any) -> Resource:
    """A kind that makes pods, with a controller that does not run here."""
    return Resource(
        group, "v1", plural, kind, categories=_ALL, status=True, generation=True,
        creation_warning=f"no controller for objects of kind {kind} runs in the embedded cluster: they create no pods", **more,
    )  # fmt: skip


def _stored(kind: str) -> str:
    """The warning for a kind whose objects restrict others elsewhere."""
    return f"the embedded cluster stores objects of kind {kind} and does not enforce them"


def _pending(claim: Obj) -> None:
    claim["status"] = {"phase": "Pending"}


def _with_spec(obj: Obj) -> None:
    obj.setdefault("spec", {})


_core = partial(Resource, "", "v1")
_CORE = (
    _core("bindings", "Binding", verbs=REVIEW_VERBS),
    _core("configmaps", "ConfigMap", short_names=("cm",),
          strategy=Strategy(validate=config.validate_config_map, validate_update=config.immutable)),
    _core("endpoints", "Endpoints", short_names=("ep",)),
    _core("events", "Event", short_names=("ev",), strategy=Strategy(validate=events.validate),
          fields=events.FIELDS),
    _core("limitranges", "LimitRange", short_names=("limits",), singular="limitrange",
          creation_warning=_stored("LimitRange")),
    _core("namespaces", "Namespace", False, short_names=("ns",), status=True, subresources={"finalize": ("update",)},
          fields=field_table("status.phase"),
          returns_deleted=True,
          strategy=Strategy(default=namespaces.default, on_create=namespaces.on_create, on_update=namespaces.on_update,
                            validate_name=names.dns1123_label)),
    _core("nodes", "Node", False, short_names=("no",), status=True, keeps_status=True, strategy=Strategy(default=_with_spec),
          fields=field_table("spec.unschedulable")),
    _core("persistentvolumeclaims", "PersistentVolumeClaim", short_names=("pvc",), status=True, returns_deleted=True,
          strategy=Strategy(on_create=_pending)),
    _core("persistentvolumes", "PersistentVolume", False, short_names=("pv",), status=True, returns_deleted=True),
    _core("pods", "Pod", short_names=("po",), categories=_ALL, status=True, generation=True, returns_deleted=True,
          subresources={
              "binding": ("create",),
              "eviction": ("create",), "exec": ("create", "get"), "log": ("get",),
          },
          strategy=Strategy(
              default=pods.default, on_create=pods.on_create, on_update=pods.on_update, validate=pods.validate,
              validate_new=pods.validate_new, validate_update=pods.validate_update,
          ),
          fields=field_table(
              "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
              "status.phase", "status.podIP", "status.nominatedNodeName",
          )),
    _core("podtemplates", "PodTemplate", generation=True, returns_deleted=True),
    _workload("", "replicationcontrollers", "ReplicationController", short_names=("rc",),
              fields=field_table("status.replicas")),
    _core("resourcequotas", "ResourceQuota", short_names=("quota",), status=True, returns_deleted=True),
    _core("secrets", "Secret", fields=field_table("type"),
          strategy=Strategy(default=config.default_secret, validate=config.validate_secret,
                            validate_update=config.secret_immutable)),
    _core("serviceaccounts", "ServiceAccount", short_names=("sa",), subresources={"token": ("create",)}, returns_deleted=True),
    _core("services", "Service", short_names=("svc",), categories=_ALL, status=True,
          returns_deleted=True, fields=field_table("spec.clusterIP", "spec.type"),
          strategy=Strategy(
              default=services.default, on_update=services.on_update, validate=services.validate,
              validate_update=services.validate_update, validate_name=names.dns1035_label,
          )),
)  # fmt: skip

_HPA = Resource(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", short_names=("hpa",), categories=_ALL,
    status=True,
)  # fmt: skip
_registration = partial(Resource, "admissionregistration.k8s.io", "v1")
_authorization = partial(Resource, "authorization.k8s.io", "v1")
_networking = partial(Resource, "networking.k8s.io", "v1")
_allocation = partial(Resource, "resource.k8s.io", "v1")
_flow = partial(Resource, "flowcontrol.apiserver.k8s.io", "v1")
_rbac = partial(Resource, "rbac.authorization.k8s.io", "v1")
_storage = partial(Resource, "storage.k8s.io", "v1")

_GROUPS = (
    _registration("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False,
        categories=_EXTENSIONS, generation=True, creation_warning=_stored("MutatingWebhookConfiguration")),
    _registration("validatingadmissionpolicies", "ValidatingAdmissionPolicy", False,
        categories=_EXTENSIONS, status=True, generation=True, creation_warning=_stored("ValidatingAdmissionPolicy")),
    _registration("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False,
        categories=_EXTENSIONS, generation=True, creation_warning=_stored("ValidatingAdmissionPolicyBinding")),
    _registration("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False,
        categories=_EXTENSIONS, generation=True, creation_warning=_stored("ValidatingWebhookConfiguration")),
    Resource(
        "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False,
        short_names=("crd", "crds"), categories=_EXTENSIONS, status=True, generation=True,
        strategy=Strategy(
            default=default_crd, on_create=crds.on_create, on_update=crds.on_update,
            validate=crds.validate, validate_update=crds.validate_update,
        ),
    ),
    Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", False, categories=_EXTENSIONS, status=True),
    Resource("apps", "v1", "controllerrevisions", "ControllerRevision"),
    _workload("apps", "daemonsets", "DaemonSet", short_names=("ds",)),
    # The way from another operator scales its Deployment down.
    _workload("apps", "deployments", "Deployment", short_names=("deploy",), scale=Scale("spec.replicas", "status.replicas")),
    _workload("apps", "replicasets", "ReplicaSet", short_names=("rs",)),
    _workload("apps", "statefulsets", "StatefulSet", short_names=("sts",)),
    _authorization("selfsubjectaccessreviews", "SelfSubjectAccessReview", False, verbs=REVIEW_VERBS),
    _authorization("subjectaccessreviews", "SubjectAccessReview", False, verbs=REVIEW_VERBS),
    _HPA,
    _workload("batch", "cronjobs", "CronJob", short_names=("cj",)),
    _workload("batch", "jobs", "Job", fields=field_table("status.successful")),
    Resource("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", False,
        short_names=("csr",), status=True, fields=field_table("spec.signerName")),
    Resource("coordination.k8s.io", "v1", "leases", "Lease"),
    Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", generation=True),
    _flow("flowschemas", "FlowSchema", False, status=True, generation=True),
    _flow("prioritylevelconfigurations", "PriorityLevelConfiguration", False, status=True, generation=True),
    _networking("ingressclasses", "IngressClass", False, generation=True),
    _networking("ingresses", "Ingress", short_names=("ing",), status=True, generation=True),
    _networking("ipaddresses", "IPAddress", False, short_names=("ip",)),
    _networking("networkpolicies", "NetworkPolicy", short_names=("netpol",), generation=True,
        creation_warning=_stored("NetworkPolicy")),
    _networking("servicecidrs", "ServiceCIDR", False, status=True),
    Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short_names=("pdb",), status=True, generation=True,
        creation_warning=_stored("PodDisruptionBudget")),
    _rbac("clusterrolebindings", "ClusterRoleBinding", False, strategy=rbac.BINDING),
    _rbac("clusterroles", "ClusterRole", False, strategy=rbac.ROLE),
    _rbac("rolebindings", "RoleBinding", strategy=rbac.BINDING),
    _rbac("roles", "Role", strategy=rbac.ROLE),
    _allocation("deviceclasses", "DeviceClass", False, generation=True),
    _allocation("resourceclaims", "ResourceClaim", status=True),
    _allocation("resourceclaimtemplates", "ResourceClaimTemplate"),
    _allocation("resourceslices", "ResourceSlice", False, generation=True),
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, short_names=("pc",)),
    _storage("csidrivers", "CSIDriver", False),
    _storage("csinodes", "CSINode", False),
    _storage("csistoragecapacities", "CSIStorageCapacity"),
    _storage("storageclasses", "StorageClass", False, short_names=("sc",)),
    _storage("volumeattachments", "VolumeAttachment", False, status=True),
    _storage("volumeattributesclasses", "VolumeAttributesClass", False, short_names=("vac",)),
)  # fmt: skip

#: The built-in resources by group, version and plural name.
BUILTIN: Mapping[tuple[str, str, str], Resource] = {
    (resource.group, resource.version, resource.plural): resource for resource in (*_CORE, *_GROUPS)
}
