"""Containers of pods and pod templates: variables, mounts, probes, restart rules."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from localcluster.apiserver.errors import (
    Cause,
    duplicate,
    forbidden,
    invalid,
    not_found_cause,
    not_supported,
    required,
)
from localcluster.apiserver.kinds.checks import at_least
from localcluster.apiserver.kinds.pod_context import PodContext
from localcluster.apiserver.kinds.pod_volumes import field_ref, resource_ref
from localcluster.apiserver.kinds.resources import container_resources
from localcluster.apiserver.kinds.rules import (
    Obj,
    between,
    beyond_first,
    form,
    need,
    on,
    one_of,
    port,
    port_causes,
    relative,
    union,
)
from localcluster.apiserver.kinds.walk import Action, Unvisited
from localcluster.apiserver.names import (
    check,
    config_key,
    dns1123_label,
    dns1123_subdomain,
    env_name,
    http_header,
    port_name,
)

_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_NO_SOURCE = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
_TWO_SOURCES = "may not have more than one field specified at a time"
_RESTARTS = ("Always", "Never", "OnFailure")


def _ports(container: Obj, path: str, _: PodContext) -> Iterator[Cause]:
    names: set[str] = set()
    for index, one in enumerate(container.get("ports") or ()):
        where, name = f"{path}.ports[{index}]", one.get("name") or ""
        if name and (problems := check(port_name, f"{where}.name", name)):
            yield from problems
        elif name in names:
            yield duplicate(f"{where}.name", name)
        elif name:
            names.add(name)
        if not one.get("containerPort"):
            yield required(f"{where}.containerPort")
        else:
            yield from port_causes(one["containerPort"], f"{where}.containerPort")
        if one.get("hostPort"):
            yield from port_causes(one["hostPort"], f"{where}.hostPort")


def host_ports(containers: Sequence[Obj], path: str) -> Iterator[Cause]:
    """A port of the node is used once."""
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for number, one in enumerate(container.get("ports") or ()):
            if one.get("hostPort"):
                key = f"{one['protocol']}/{one.get('hostIP', '')}/{one['hostPort']}"
                if key in seen:
                    yield duplicate(f"{path}[{index}].ports[{number}].hostPort", key)
                seen.add(key)


def _variable(variable: Obj, path: str, _: PodContext) -> Iterator[Cause]:
    # Two variables of the same name are accepted: the last one wins.
    source, where = variable.get("valueFrom"), f"{path}.valueFrom"
    if source is None:
        return
    given = [name for name in _ENV_SOURCES if source.get(name) is not None]
    if "fieldRef" in given:
        yield from field_ref(source["fieldRef"], f"{where}.fieldRef", env=True)
    if "resourceFieldRef" in given:
        yield from resource_ref(source["resourceFieldRef"], f"{where}.resourceFieldRef", env=True)
    if not given:
        yield invalid(where, "", _NO_SOURCE)
    elif variable.get("value"):
        yield invalid(where, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield invalid(where, "", _TWO_SOURCES)


def _key(one: Obj, path: str, _: PodContext) -> Iterator[Cause]:
    yield from check(dns1123_subdomain, f"{path}.name", one.get("name") or "")


def _env_from(container: Obj, path: str, _: PodContext) -> Iterator[Cause]:
    for one in container.get("envFrom") or ():
        given = [name for name in ("configMapRef", "secretRef") if one.get(name) is not None]
        if not given:
            yield invalid(f"{path}.envFrom", "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield invalid(f"{path}.envFrom", "", _TWO_SOURCES)


def _mounts(container: Obj, path: str, pod: PodContext) -> Iterator[Cause]:
    places: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        where = f"{path}.volumeMounts[{index}]"
        name, target = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield required(f"{where}.name")
        if name not in pod.volumes:
            yield not_found_cause(f"{where}.name", name)
        if not target:
            yield required(f"{where}.mountPath")
        if target in places:
            yield invalid(f"{where}.mountPath", target, "must be unique")
        places.add(target)
        for option in ("subPath", "subPathExpr"):
            if mount.get(option):
                # The real server leaves out which of the mounts it is.
                yield from relative(f"{path}.volumeMounts.{option}", mount[option])


def _resources(container: Obj, path: str, _: PodContext) -> Iterator[Cause]:
    return container_resources(container.get("resources") or {}, f"{path}.resources")


def _restart(container: Obj, path: str, _: PodContext) -> Iterator[Cause]:
    if container.get("restartPolicy") not in (None, *_RESTARTS):
        yield not_supported(f"{path}.restartPolicy", container["restartPolicy"], _RESTARTS)


def _plain_init(container: Obj, path: str) -> bool:
    return ".initContainers[" in path and container.get("restartPolicy") != "Always"


def _init(container: Obj, path: str, _: PodContext) -> Iterator[Cause]:
    if _plain_init(container, path):
        for name in ("lifecycle", *_PROBES):
            if container.get(name) is not None:
                yield forbidden(f"{path}.{name}", "may not be set for init containers without restartPolicy=Always")


def _image_spaces(container: Obj, path: str, pod: PodContext) -> Iterator[Cause]:
    image = container.get("image") or ""
    if pod.is_pod and image != image.strip():
        yield invalid(f"{path}.image", image, "must not have leading or trailing whitespace")


def _probes(container: Obj, path: str, _: PodContext) -> Iterator[Cause]:
    if _plain_init(container, path):
        return
    for name in ("livenessProbe", "startupProbe"):
        threshold = (container.get(name) or {}).get("successThreshold", 1)
        if threshold != 1:
            yield invalid(f"{path}.{name}.successThreshold", threshold, "must be 1")
    grace = (container.get("readinessProbe") or {}).get("terminationGracePeriodSeconds")
    if grace is not None:
        yield invalid(f"{path}.readinessProbe.terminationGracePeriodSeconds", grace, "must not be set for readinessProbes")


def _http(one: Obj, path: str, _: PodContext) -> Iterator[Cause]:
    for header in one.get("httpHeaders") or ():
        yield from check(http_header, f"{path}.httpHeaders", header.get("name") or "")


def _sleep(one: Obj, path: str, pod: PodContext) -> Iterator[Cause]:
    grace, seconds = pod.spec.get("terminationGracePeriodSeconds", 30), one.get("seconds", 0)
    if not 0 <= seconds <= grace:
        yield invalid(path, seconds, f"must be non-negative and less than terminationGracePeriodSeconds ({grace})")


ACTIONS: Mapping[str, Sequence[Action]] = {
    "Container": (
        form("name", dns1123_label, needed=True), need("image"),
        one_of("terminationMessagePolicy", "File", "FallbackToLogsOnError"), _ports, _env_from, _mounts,
        one_of("imagePullPolicy", "Always", "IfNotPresent", "Never"), _resources, _restart, _init, _probes,
        _image_spaces,
    ),
    "ContainerPort": (one_of("protocol", "SCTP", "TCP", "UDP"),),
    "EnvVar": (form("name", env_name, needed=True), _variable),
    "EnvFromSource": (form("prefix", env_name),),
    "ConfigMapEnvSource": (form("name", dns1123_subdomain, needed=True),),
    "SecretEnvSource": (form("name", dns1123_subdomain, needed=True),),
    "ConfigMapKeySelector": (_key, form("key", config_key, needed=True)),
    "SecretKeySelector": (_key, form("key", config_key, needed=True)),
    "Probe": (
        union("handler", _HANDLERS),
        *(
            on(name, at_least(0))
            for name in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
        ),
        between("terminationGracePeriodSeconds", 1, 2**63, "must be greater than 0"),
    ),
    "LifecycleHandler": (union("handler", _HANDLERS),),
    "ExecAction": (need("command"),),
    "HTTPGetAction": (need("path"), port("port"), one_of("scheme", "HTTP", "HTTPS", needed=False), _http),
    "TCPSocketAction": (port("port"),),
    "GRPCAction": (port("port"),),
    "SleepAction": (_sleep,),
}  # fmt: skip


def _unvisited(container: Obj, path: str, _: PodContext) -> Collection[str]:
    return ("lifecycle", *_PROBES) if _plain_init(container, path) else ()


UNVISITED: Mapping[str, Unvisited] = {
    "Container": _unvisited, "Probe": beyond_first(_HANDLERS), "LifecycleHandler": beyond_first(_HANDLERS),
}  # fmt: skip
