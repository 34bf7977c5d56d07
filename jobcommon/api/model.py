"""The base of our API's pydantic models, and the structural schemas made from them."""

from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from jobcommon.api.text import shortened


class ApiModel(BaseModel):
    """A frozen value whose JSON is camelCase and which keeps the fields it does not know.

    Unknown fields survive a round trip because an older operator must not lose what a newer one, or the user, has written.
    Numbers, booleans and strings are not converted into one another: ``replicas: "3"`` is an error, as it is for a real
    API server.
    """

    model_config = ConfigDict(
        extra="allow", frozen=True, populate_by_name=True, alias_generator=to_camel, strict=True, use_enum_values=False
    )


Json = dict[str, Any]

# Bounds what a CEL rule over a string may cost; the API server refuses rules whose cost it cannot bound.
MAX_STRING = 4096
_INT32 = {"minimum": -(2**31), "maximum": 2**31 - 1}
_DESCRIPTION_LIMIT = 400
#: In a schema, for that of a part of a pod template, as in ``spec.containers.env``; "" for the whole.
POD_PART = "x-jobcommon-pod-part"


class _Generator(GenerateJsonSchema):
    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


def model_schema(model: type[BaseModel]) -> Json:
    """The structural schema of a model's JSON form (by alias). Raises ValueError for a recursive model."""
    document = _document(model)
    return _structural(document, document.get("$defs", {}), ())


@cache
def _document(model: type[BaseModel]) -> Json:
    """What pydantic writes; a CRD asks for it again until its descriptions are short enough. Read only."""
    return _Generator(by_alias=True).generate(model.__pydantic_core_schema__, mode="validation")


def _structural(node: Json, definitions: Json, above: tuple[str, ...]) -> Json:
    if "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[-1]
        if name in above:
            raise ValueError(f"{' -> '.join((*above, name))}: a recursive model has no structural schema")
        found = _structural(definitions[name], definitions, (*above, name))
        return _described(found, node)
    if "allOf" in node and len(node["allOf"]) == 1:
        return _described(_structural(node["allOf"][0], definitions, above), node)
    result: Json = {key: node[key] for key in ("type", "enum", "pattern", "format") if key in node}
    for key in ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"):
        if key in node:
            result[key] = node[key]
    _limit_number(node, result)
    if "properties" in node:
        result["properties"] = {name: _structural(child, definitions, above) for name, child in node["properties"].items()}
        if "required" in node:
            result["required"] = sorted(node["required"])
    elif result.get("type") == "object":
        rest = node.get("additionalProperties")
        if isinstance(rest, dict) and rest:
            result["additionalProperties"] = _structural(rest, definitions, above)
        else:
            result["x-kubernetes-preserve-unknown-fields"] = True
    if "items" in node:
        result["items"] = _structural(node["items"], definitions, above)
    if not result:
        result["x-kubernetes-preserve-unknown-fields"] = True
    return _described(result, node)


def _described(schema: Json, node: Json) -> Json:
    text = shortened(node.get("description", ""), _DESCRIPTION_LIMIT)
    added = {POD_PART: node[POD_PART]} if POD_PART in node else {}
    return {**schema, **added, "description": text} if text else {**schema, **added}


def _limit_number(node: Json, result: Json) -> None:
    if node.get("type") not in ("integer", "number"):
        return
    if node["type"] == "integer":
        fits = all(abs(node.get(key, 2**40)) <= 2**31 for key in _INT32)
        result["format"] = "int32" if fits else "int64"
    for key in ("minimum", "maximum"):
        strict = node.get("exclusive" + key.capitalize())
        if strict is not None:
            result.update({key: strict, "exclusive" + key.capitalize(): True})
        elif key in node and node[key] != _INT32[key]:
            result[key] = node[key]
    if "multipleOf" in node:
        result["multipleOf"] = node["multipleOf"]


def bounded(node: Json) -> Json:
    """The schema with a length limit on every string that has neither a limit nor an enum."""
    result = dict(node)
    if node.get("type") == "string" and "enum" not in node and "maxLength" not in node:
        result["maxLength"] = MAX_STRING
    if "properties" in node:
        result["properties"] = {name: bounded(child) for name, child in node["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            result[key] = bounded(node[key])
    return result
