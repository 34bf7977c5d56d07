"""What the published schemas of pods and Services leave out: the defaults and limits of single fields, by type.

They are JSON Schema, put on the published definitions, so that one validator checks them wherever a type occurs. The formats
are rules for names. What one field says of another is in `pod_spec` and `services`.
"""

from collections.abc import Mapping

import jsonschema_rs

from localcluster.apiserver import builtin_schemas
from localcluster.apiserver.builtin_schemas import REF_PREFIX, Json
from localcluster.apiserver.names import FORMATS
from localcluster.apiserver.schema.trim import trim


def _one_of(*values: str, default: str = "") -> Json:
    return {"enum": list(values), **({"default": default} if default else {})}


def _named(kind: str) -> Json:
    return {"format": kind}


def _number(least: int, most: int | None = None, default: int | None = None) -> Json:
    limits = {"minimum": least, "maximum": most, "default": default}
    return {key: value for key, value in limits.items() if value is not None}


_LABEL, _SUBDOMAIN, _QUALIFIED, _INSIDE = map(_named, ("dns1123_label", "dns1123_subdomain", "qualified_name", "inside"))
#: Of a port's number, or of its name.
_PORT = {"minimum": 1, "maximum": 65535, "format": "port_name"}
_PATH_TYPES = ("BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_MODE = _number(0, 0o777)
_FILES = {"defaultMode": _number(0, 0o777, 0o644)}
_IDENTITIES = dict.fromkeys(("fsGroup", "runAsUser", "runAsGroup"), _number(0, 2**31 - 1))
_WEIGHT = {"weight": _number(1, 100)}
_EMPTY: Json = {"default": {}}


def _requirement(*operators: str) -> Json:
    """Which operators there are, and which of them take values."""

    def of(*some: str) -> Json:
        return {"properties": {"operator": {"enum": list(some)}}, "required": ["operator"]}

    return {
        "properties": {"operator": {"enum": list(operators)}, "key": _QUALIFIED},
        "allOf": [
            {"if": of("In", "NotIn"), "then": {"required": ["values"]}},
            {"if": of("Exists", "DoesNotExist"), "then": {"properties": {"values": {"maxItems": 0}}}},
            {"if": of("Gt", "Lt"), "then": {"required": ["values"], "properties": {"values": {"minItems": 1, "maxItems": 1}}}},
        ],
    }


def _with(*required: str, **properties: Json) -> Json:
    return {"properties": properties, **({"required": list(required)} if required else {})}


#: Type -> the rules of its fields. A default is of a pod alone or in a template.
RULES: Mapping[str, Json] = {
    "PodSpec": _with(
        "containers",
        containers={"minItems": 1}, restartPolicy=_one_of("Always", "OnFailure", "Never", default="Always"),
        dnsPolicy=_one_of("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None", default="ClusterFirst"),
        terminationGracePeriodSeconds={"default": 30}, securityContext=_EMPTY, schedulerName={"default": "default-scheduler"},
        hostname=_LABEL, subdomain=_LABEL, serviceAccountName=_SUBDOMAIN, nodeName=_SUBDOMAIN, priorityClassName=_SUBDOMAIN,
        runtimeClassName=_SUBDOMAIN, preemptionPolicy=_one_of("PreemptLowerPriority", "Never"),
        activeDeadlineSeconds=_number(1, 2**31 - 1),
    ),
    "Container": _with(
        "name", "image",
        name=_LABEL, image=_named("image"), imagePullPolicy=_one_of("Always", "IfNotPresent", "Never"), resources=_EMPTY,
        terminationMessagePath={"default": "/dev/termination-log"}, restartPolicy=_one_of("Always", "Never", "OnFailure"),
        terminationMessagePolicy=_one_of("File", "FallbackToLogsOnError", default="File"),
    ),
    "ContainerPort": _with(
        "containerPort",
        containerPort=_number(1, 65535), hostPort=_number(1, 65535), name=_named("port_name"),
        protocol=_one_of("SCTP", "TCP", "UDP", default="TCP"),
    ),
    "EnvVar": _with("name", name=_named("env_name")),
    "EnvFromSource": _with(prefix=_named("env_name")),
    "ConfigMapEnvSource": _with("name", name=_SUBDOMAIN),
    "SecretEnvSource": _with("name", name=_SUBDOMAIN),
    "ConfigMapKeySelector": _with("name", "key", name=_SUBDOMAIN, key=_named("config_key")),
    "SecretKeySelector": _with("name", "key", name=_SUBDOMAIN, key=_named("config_key")),
    "ObjectFieldSelector": _with("fieldPath", apiVersion=_one_of("v1", default="v1"), fieldPath=_named("field_path")),
    "ResourceFieldSelector": _with("resource", resource=_named("amount_path"), divisor={"default": "0"}),
    "VolumeMount": _with("name", "mountPath", mountPath=_named("given"), subPath=_INSIDE, subPathExpr=_INSIDE),
    "Probe": _with(
        initialDelaySeconds=_number(0), timeoutSeconds=_number(0, default=1), periodSeconds=_number(0, default=10),
        successThreshold=_number(0, default=1), failureThreshold=_number(0, default=3),
        terminationGracePeriodSeconds=_number(1),
    ),
    "ExecAction": _with("command", command={"minItems": 1}),
    "HTTPGetAction": _with(
        "port", port=_PORT, path={**_named("given"), "default": "/"}, scheme=_one_of("HTTP", "HTTPS", default="HTTP")
    ),
    "TCPSocketAction": _with("port", port=_PORT),
    "GRPCAction": _with("port", port=_PORT, service={"default": ""}),
    "Volume": _with("name", name=_LABEL),
    "HostPathVolumeSource": _with(
        "path",
        path=_named("host_path"),
        type={"default": "", "enum": ["", *_PATH_TYPES]},
    ),
    "SecretVolumeSource": _with("secretName", **_FILES),
    "ConfigMapVolumeSource": _with("name", **_FILES),
    "DownwardAPIVolumeSource": _with(**_FILES),
    "ProjectedVolumeSource": _with(**_FILES),
    "SecretProjection": _with("name"),
    "ConfigMapProjection": _with("name"),
    "ServiceAccountTokenProjection": _with("path", path=_INSIDE, expirationSeconds=_number(600, 2**32, 3600)),
    "KeyToPath": _with("key", "path", path=_INSIDE, mode=_MODE),
    "DownwardAPIVolumeFile": _with("path", path=_INSIDE, mode=_MODE),
    "PersistentVolumeClaimVolumeSource": _with("claimName"),
    "NFSVolumeSource": _with("server", "path", path=_named("absolute")),
    "PodSecurityContext": _with(**_IDENTITIES),
    "SecurityContext": _with(**_IDENTITIES),
    "PodSchedulingGate": _with("name", name=_QUALIFIED),
    "NodeSelector": _with("nodeSelectorTerms", nodeSelectorTerms={"minItems": 1}),
    "NodeSelectorRequirement": _requirement("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
    "LabelSelectorRequirement": _requirement("In", "NotIn", "Exists", "DoesNotExist"),
    "PreferredSchedulingTerm": _with(**_WEIGHT),
    "WeightedPodAffinityTerm": _with(**_WEIGHT),
    "PodAffinityTerm": _with("topologyKey", topologyKey=_QUALIFIED),
    "TopologySpreadConstraint": _with(
        "topologyKey", "maxSkew", "whenUnsatisfiable",
        topologyKey=_QUALIFIED, maxSkew=_number(1), minDomains=_number(1),
        whenUnsatisfiable=_one_of("DoNotSchedule", "ScheduleAnyway"),
    ),
    "ServiceSpec": _with(type=_one_of("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")),
    "ServicePort": _with(
        "port", name=_LABEL, port=_number(1, 65535), targetPort=_PORT, protocol=_one_of("SCTP", "TCP", "UDP")
    ),
}  # fmt: skip


def _tree(name: str) -> Json:
    """The rules of a type and of all that it is made of."""
    rules = RULES.get(name.rpartition(".")[2], {})
    found: dict[str, Json] = {key: dict(rule) for key, rule in rules.get("properties", {}).items()}
    for key, schema in builtin_schemas.definitions()[name].get("properties", {}).items():
        many = schema.get("type") == "array"
        target = (schema["items"] if many else schema).get("$ref", "").removeprefix(REF_PREFIX)
        below = _tree(target) if target else {}
        if below:
            found[key] = {**found.get(key, {}), **({"items": below} if many else below)}
    return {**rules, **({"properties": found} if found else {})}


def _validator(spec: Json) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(
        {"properties": {"spec": spec}},
        validate_formats=True,
        formats={name: lambda text, rule=rule: bool(text) and not rule(text) for name, rule in FORMATS.items()},
    )


_POD = _tree("io.k8s.api.core.v1.PodSpec")
#: The defaults of a pod's spec.
POD_DEFAULTS = trim(_POD, lambda node: "default" in node) or {}
POD, SERVICE = _validator(_POD), _validator(_tree("io.k8s.api.core.v1.ServiceSpec"))
