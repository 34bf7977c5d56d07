"""What the published schemas of pods and Services leave out: the defaults and limits of single fields, by type.

`field_rules.json` is JSON Schema, put on the published definitions, so that one validator checks them wherever a type occurs.
The formats are rules for names. A default is of a pod alone or in a template. What one field says of another is in `pod_spec`
and `plain`.
"""

import json
from importlib import resources

import jsonschema_rs

from localcluster.apiserver import builtin_schemas
from localcluster.apiserver.builtin_schemas import REF_PREFIX, Json
from localcluster.apiserver.names import FORMATS
from localcluster.apiserver.schema.walk import trim

#: Type -> the rules of its fields.
RULES: Json = json.loads(resources.files("localcluster.apiserver.kinds").joinpath("field_rules.json").read_text())


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
