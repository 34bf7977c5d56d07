"""The pod template of a task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobcommon.cli.convert.resources import gpu_count
from jobcommon.cli.convert.task import Properties

Template = dict[str, Any]
Env = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Program:
    """What runs in the main container: its name, image and variables, the same for every task of a type."""

    container: str
    image: str
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    env: Env = field(default_factory=list)


def pod_template(program: Program, properties: Properties) -> Template:
    """The template for a task of these properties."""
    container: dict[str, Any] = {"name": program.container, "image": program.image}
    if program.command:
        container["command"] = list(program.command)
    if program.args:
        container["args"] = list(program.args)
    if env := _env(program.env, properties):
        container["env"] = env
    if sources := _env_from(properties):
        container["envFrom"] = sources
    if properties.get("resources"):
        container["resources"] = properties["resources"]
    spec: dict[str, Any] = {"containers": [container]}
    for name, key in _POD_FIELDS.items():
        if properties.get(name):
            spec[key] = properties[name]
    if properties.get("image_pull_secrets"):
        spec["imagePullSecrets"] = [{"name": name} for name in properties["image_pull_secrets"]]
    metadata = {name: properties[name] for name in ("labels", "annotations") if properties.get(name)}
    return {"metadata": metadata, "spec": spec} if metadata else {"spec": spec}


_POD_FIELDS = {
    "node_selector": "nodeSelector",
    "affinity": "affinity",
    "tolerations": "tolerations",
    "service_account": "serviceAccountName",
}


def _env(given: Env, properties: Properties) -> Env:
    """The task's own variables win, then the given ones; without a GPU the image's default would show it all of the node's."""
    own = properties.get("env_vars", {})
    env = [{"name": name, "value": value} for name, value in own.items()]
    env += [entry for entry in given if entry["name"] not in own]
    if not gpu_count(properties.get("resources", {})) and all(e["name"] != "NVIDIA_VISIBLE_DEVICES" for e in env):
        env.append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"})
    return env


def _env_from(properties: Properties) -> list[Mapping[str, Any]]:
    config_maps = [{"configMapRef": {"name": name}} for name in properties.get("config_map_refs", ())]
    return [*config_maps, *({"secretRef": {"name": name}} for name in properties.get("secret_refs", ()))]
