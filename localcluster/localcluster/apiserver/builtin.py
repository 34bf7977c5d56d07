"""The built-in resources: one table, in the order in which discovery lists them."""

from collections.abc import Mapping
from dataclasses import replace

from localcluster.apiserver import names
from localcluster.apiserver.crd import default_crd
from localcluster.apiserver.kinds import (
    apps,
    autoscaling,
    batch,
    config,
    crds,
    events,
    namespaces,
    networking,
    nodes,
    pods,
    rbac,
    registration,
    services,
    volumes,
)
from localcluster.apiserver.resource import REVIEW_VERBS, Resource, Scale, Strategy, field_table

_SCALE = Scale("spec.replicas", "status.replicas")
_ALL = ("all",)
_EXTENSIONS = ("api-extensions",)


def _makes_no_pods(kind: str) -> str:
    return f"no controller for objects of kind {kind} runs in the embedded cluster: they make no pods"


_CORE = (
    Resource("", "v1", "bindings", "Binding", verbs=REVIEW_VERBS),
    Resource(
        "",
        "v1",
        "configmaps",
        "ConfigMap",
        short_names=("cm",),
        strategy=Strategy(validate=config.validate_config_map, validate_update=config.immutable),
    ),
    Resource("", "v1", "endpoints", "Endpoints", short_names=("ep",), create_on_update=True, strategy=nodes.ENDPOINTS),
    Resource(
        "",
        "v1",
        "events",
        "Event",
        short_names=("ev",),
        create_on_update=True,
        strategy=Strategy(validate=events.validate),
        fields=events.FIELDS,
    ),
    Resource(
        "",
        "v1",
        "limitranges",
        "LimitRange",
        short_names=("limits",),
        singular="limitrange",
        create_on_update=True,
        strategy=nodes.LIMIT_RANGE,
    ),
    Resource(
        "",
        "v1",
        "namespaces",
        "Namespace",
        False,
        short_names=("ns",),
        status=True,
        subresources={"finalize": ("update",)},
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        strategy=Strategy(
            default=namespaces.default,
            on_create=namespaces.on_create,
            on_update=namespaces.on_update,
            validate_name=names.dns1123_label,
        ),
        fields=field_table("status.phase"),
        returns_deleted=True,
    ),
    Resource(
        "",
        "v1",
        "nodes",
        "Node",
        False,
        short_names=("no",),
        status=True,
        keeps_status=True,
        strategy=nodes.NODE,
        fields=field_table("spec.unschedulable"),
    ),
    Resource(
        "",
        "v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        short_names=("pvc",),
        status=True,
        returns_deleted=True,
        strategy=volumes.CLAIM,
    ),
    Resource(
        "",
        "v1",
        "persistentvolumes",
        "PersistentVolume",
        False,
        short_names=("pv",),
        status=True,
        returns_deleted=True,
        strategy=volumes.VOLUME,
    ),
    Resource(
        "",
        "v1",
        "pods",
        "Pod",
        short_names=("po",),
        categories=_ALL,
        status=True,
        generation=True,
        returns_deleted=True,
        subresources={
            "attach": ("create", "get"),
            "binding": ("create",),
            "ephemeralcontainers": ("get", "patch", "update"),
            "eviction": ("create",),
            "exec": ("create", "get"),
            "log": ("get",),
            "portforward": ("create", "get"),
        },
        strategy=Strategy(
            default=pods.default,
            on_create=pods.on_create,
            on_update=pods.on_update,
            validate=pods.validate,
            validate_new=pods.validate_new,
            validate_update=pods.validate_update,
            assigned=pods.ASSIGNED,
        ),
        fields=field_table(
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ),
    ),
    Resource("", "v1", "podtemplates", "PodTemplate", generation=True, returns_deleted=True, strategy=apps.POD_TEMPLATE),
    Resource(
        "",
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        creation_warning=_makes_no_pods("ReplicationController"),
        short_names=("rc",),
        categories=_ALL,
        status=True,
        generation=True,
        scale=_SCALE,
        fields=field_table("status.replicas"),
        strategy=apps.REPLICATION_CONTROLLER,
    ),
    Resource(
        "",
        "v1",
        "resourcequotas",
        "ResourceQuota",
        short_names=("quota",),
        status=True,
        returns_deleted=True,
        strategy=nodes.RESOURCE_QUOTA,
    ),
    Resource(
        "",
        "v1",
        "secrets",
        "Secret",
        fields=field_table("type"),
        strategy=Strategy(
            default=config.default_secret, validate=config.validate_secret, validate_update=config.secret_immutable
        ),
    ),
    Resource(
        "",
        "v1",
        "serviceaccounts",
        "ServiceAccount",
        short_names=("sa",),
        subresources={"token": ("create",)},
        returns_deleted=True,
    ),
    Resource(
        "",
        "v1",
        "services",
        "Service",
        short_names=("svc",),
        categories=_ALL,
        status=True,
        create_on_update=True,
        returns_deleted=True,
        fields=field_table("spec.clusterIP", "spec.type"),
        strategy=Strategy(
            default=services.default,
            on_update=services.on_update,
            validate=services.validate,
            validate_update=services.validate_update,
            validate_name=names.dns1035_label,
            assigned=services.ASSIGNED,
            assigned_in=services.ASSIGNED_IN,
        ),
    ),
)


def _workload(plural: str, kind: str, short: str, strategy: Strategy, scale: Scale | None = _SCALE) -> Resource:
    return Resource(
        "apps",
        "v1",
        plural,
        kind,
        short_names=(short,),
        categories=_ALL,
        status=True,
        generation=True,
        scale=scale,
        strategy=strategy,
        creation_warning=_makes_no_pods(kind),
    )


_EVENTS = next(resource for resource in _CORE if resource.plural == "events")

_HPA = Resource(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", short_names=("hpa",), categories=_ALL,
    status=True, strategy=autoscaling.HORIZONTAL_POD_AUTOSCALER,
)  # fmt: skip
_REGISTRATION = "admissionregistration.k8s.io"
_FLOW = "flowcontrol.apiserver.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_STORAGE = "storage.k8s.io"

_GROUPS = (
    Resource(_REGISTRATION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False,
             categories=_EXTENSIONS, generation=True, strategy=registration.MUTATING_WEBHOOKS),
    Resource(_REGISTRATION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False,
             categories=_EXTENSIONS, status=True, generation=True, strategy=registration.POLICY),
    Resource(_REGISTRATION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False,
             categories=_EXTENSIONS, generation=True, strategy=registration.BINDING),
    Resource(_REGISTRATION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False,
             categories=_EXTENSIONS, generation=True, strategy=registration.VALIDATING_WEBHOOKS),
    Resource(
        "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False,
        short_names=("crd", "crds"), categories=_EXTENSIONS, status=True, generation=True,
        strategy=Strategy(
            default=default_crd, on_create=crds.on_create, unstored=crds.unstored, on_update=crds.on_update,
            validate=crds.validate,
            validate_update=crds.validate_update,
        ),
    ),
    Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", False, categories=_EXTENSIONS, status=True),
    Resource("apps", "v1", "controllerrevisions", "ControllerRevision", strategy=apps.REVISION),
    _workload("daemonsets", "DaemonSet", "ds", apps.DAEMON_SET, scale=None),
    _workload("deployments", "Deployment", "deploy", apps.DEPLOYMENT),
    _workload("replicasets", "ReplicaSet", "rs", apps.REPLICA_SET),
    _workload("statefulsets", "StatefulSet", "sts", apps.STATEFUL_SET),
    Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False, verbs=REVIEW_VERBS),
    Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False, verbs=REVIEW_VERBS),
    Resource("authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", verbs=REVIEW_VERBS),
    Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False, verbs=REVIEW_VERBS),
    Resource("authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", False, verbs=REVIEW_VERBS),
    Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False, verbs=REVIEW_VERBS),
    _HPA,
    replace(_HPA, version="v1", conversion=autoscaling.CONVERSION),
    Resource("batch", "v1", "cronjobs", "CronJob", short_names=("cj",), categories=_ALL, status=True, generation=True,
             strategy=batch.CRON_JOB, creation_warning=_makes_no_pods("CronJob")),
    Resource("batch", "v1", "jobs", "Job", categories=_ALL, status=True, generation=True, strategy=batch.JOB,
             fields=field_table("status.successful"), creation_warning=_makes_no_pods("Job")),
    Resource("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", False,
             short_names=("csr",), status=True, subresources={"approval": ("get", "patch", "update")},
             strategy=nodes.SIGNING_REQUEST, fields=field_table("spec.signerName")),
    Resource("coordination.k8s.io", "v1", "leases", "Lease", create_on_update=True,
             strategy=Strategy(validate=config.validate_lease)),
    Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", generation=True,
             strategy=networking.ENDPOINT_SLICE),
    replace(
        _EVENTS, group="events.k8s.io", table="events", conversion=events.CONVERSION,
        strategy=Strategy(validate=events.validate), fields=events.NEW_FIELDS,
    ),
    Resource(_FLOW, "v1", "flowschemas", "FlowSchema", False, status=True, generation=True),
    Resource(_FLOW, "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", False, status=True, generation=True),
    Resource("networking.k8s.io", "v1", "ingressclasses", "IngressClass", False, generation=True,
             strategy=networking.INGRESS_CLASS),
    Resource("networking.k8s.io", "v1", "ingresses", "Ingress", short_names=("ing",), status=True, generation=True,
             strategy=networking.INGRESS),
    Resource("networking.k8s.io", "v1", "ipaddresses", "IPAddress", False, short_names=("ip",)),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", short_names=("netpol",), generation=True,
             strategy=networking.NETWORK_POLICY),
    Resource("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", False, status=True),
    Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False, strategy=nodes.RUNTIME_CLASS),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short_names=("pdb",), status=True, generation=True,
             strategy=networking.DISRUPTION_BUDGET),
    Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", False, create_on_update=True,
             strategy=rbac.CLUSTER_ROLE_BINDING),
    Resource(_RBAC, "v1", "clusterroles", "ClusterRole", False, create_on_update=True, strategy=rbac.CLUSTER_ROLE),
    Resource(_RBAC, "v1", "rolebindings", "RoleBinding", create_on_update=True, strategy=rbac.ROLE_BINDING),
    Resource(_RBAC, "v1", "roles", "Role", create_on_update=True, strategy=rbac.ROLE),
    Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False, generation=True),
    Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", status=True),
    Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False, generation=True),
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, short_names=("pc",),
             strategy=nodes.PRIORITY_CLASS),
    Resource(_STORAGE, "v1", "csidrivers", "CSIDriver", False, strategy=volumes.CSI_DRIVER),
    Resource(_STORAGE, "v1", "csinodes", "CSINode", False, strategy=volumes.CSI_NODE),
    Resource(_STORAGE, "v1", "csistoragecapacities", "CSIStorageCapacity"),
    Resource(_STORAGE, "v1", "storageclasses", "StorageClass", False, short_names=("sc",), strategy=volumes.STORAGE_CLASS),
    Resource(_STORAGE, "v1", "volumeattachments", "VolumeAttachment", False, status=True, strategy=volumes.VOLUME_ATTACHMENT),
    Resource(_STORAGE, "v1", "volumeattributesclasses", "VolumeAttributesClass", False, short_names=("vac",)),
)  # fmt: skip

#: The built-in resources by group, version and plural name.
BUILTIN: Mapping[tuple[str, str, str], Resource] = {
    (resource.group, resource.version, resource.plural): resource for resource in (*_CORE, *_GROUPS)
}
