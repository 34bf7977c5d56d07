"""Writes `protobuf_fields.json.gz`: the field numbers of the built-in kinds, read from the tags of Kubernetes' Go types.

kubectl and the Go clients send built-in kinds as protobuf, and nothing but those tags says which field has which number.
Run as ``python -m localcluster.schemas.protobuf_fields API APIMACHINERY``, the two arguments being checkouts of
k8s.io/api and k8s.io/apimachinery. The output is the same every time.
"""

import gzip
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ARTEFACT = Path(__file__).with_name("protobuf_fields.json.gz")
META = "meta/v1"
#: Folder of k8s.io/api -> API group.
GROUPS = {
    "core/v1": "", "apps/v1": "apps", "autoscaling/v1": "autoscaling", "autoscaling/v2": "autoscaling", "batch/v1": "batch",
    "policy/v1": "policy", "rbac/v1": "rbac.authorization.k8s.io",
    **{f"{name}/v1": f"{name}.k8s.io" for name in (
        "authentication", "authorization", "coordination", "discovery", "events", "networking", "scheduling", "storage",
    )},
}  # fmt: skip
#: Go types with an encoding of their own.
SPECIAL = {
    "metav1.Time": "time", "metav1.MicroTime": "time", "metav1.Duration": "duration", "metav1.FieldsV1": "raw",
    "resource.Quantity": "quantity", "intstr.IntOrString": "intstr", "runtime.RawExtension": "raw",
}  # fmt: skip
SCALARS = {
    "string": "string", "bool": "bool", "int32": "int", "int64": "int", "int": "int", "uint32": "int", "uint8": "int",
    "float64": "float", "types.UID": "string", "byte": "int",
}  # fmt: skip

_TYPE = re.compile(r"^type (\w+) (.+?)\s*(\{)?$")
_FIELD = re.compile(r'^\s+(?:(\w+)\s+)?(\S+)\s+`json:"([^"]*)"[^`]*\bprotobuf:"([^"]*)"')
_ALIASES = {"v1.": "core/v1.", "corev1.": "core/v1.", "api.": "core/v1.", "apiv1.": "core/v1."}


@dataclass
class Source:
    """The Go types of one package: structs as raw fields, other names as their definitions."""

    package: str
    structs: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)


def read(package: str, text: str) -> Source:
    """Find the type declarations of a types.go."""
    source = Source(package)
    current: list[tuple[str, str, str]] | None = None
    for line in text.splitlines():
        if match := _TYPE.match(line):
            name, what, _ = match.groups()
            if what == "struct":
                current = source.structs.setdefault(name, [])
            else:
                source.names[name] = what.split("//")[0].strip()
        elif line == "}":
            current = None
        elif current is not None and (found := _FIELD.match(line)):
            current.append((found[2], found[3], found[4]))
    return source


class Generator:
    """Turns Go types into rows ``[number, JSON name, code, reference, repeated, pointer]``."""

    def __init__(self, sources: dict[str, Source]) -> None:
        self.sources = sources

    def messages(self) -> Iterator[tuple[str, list[list[Any]]]]:
        """Every struct with its rows; an empty JSON name means that the fields are inlined."""
        for source in self.sources.values():
            for name, fields in sorted(source.structs.items()):
                # Fields of alpha packages are left out: the server does not have them.
                yield f"{source.package}.{name}", [self._row(source, *one) for one in fields if "alpha" not in one[0]]

    def _row(self, source: Source, go_type: str, tag: str, proto: str) -> list[Any]:
        number = int(proto.split(",")[1])
        pointer = go_type.startswith("*")
        code, reference, repeated = self._code(source, go_type.lstrip("*"))
        return [number, tag.split(",")[0], code, reference, repeated, pointer]

    def _code(self, source: Source, go_type: str) -> tuple[str, Any, bool]:
        if go_type == "[]byte":
            return "bytes", None, False
        if go_type.startswith("[]"):
            code, reference, _ = self._code(source, go_type[2:].lstrip("*"))
            return code, reference, True
        if match := re.fullmatch(r"map\[[^]]+\](.+)", go_type):
            code, reference, repeated = self._code(source, match[1])
            return "map", [code, reference, repeated], True
        if go_type in SCALARS:
            return SCALARS[go_type], None, False
        qualified = go_type if "." in go_type or source.package != META else f"metav1.{go_type}"
        if qualified in SPECIAL:
            return SPECIAL[qualified], None, False
        return self._named(source, go_type)

    def _named(self, source: Source, go_type: str) -> tuple[str, Any, bool]:
        owner, name = source, go_type
        if go_type.startswith("metav1."):
            owner, name = self.sources[META], go_type.removeprefix("metav1.")
        else:
            for alias, target in _ALIASES.items():
                if go_type.startswith(alias):
                    owner, name = self.sources[target.rstrip(".")], go_type.removeprefix(alias)
        if name in owner.structs:
            return "message", f"{owner.package}.{name}", False
        target = owner.names[name]
        if target.startswith("[]"):
            # A named list is a message with one repeated field.
            return "items", self._code(owner, target[2:])[0], False
        return self._code(owner, target)


def main(api: Path, apimachinery: Path) -> None:
    """Write the artefact."""
    texts = {folder: (api / folder / "types.go").read_text() for folder in GROUPS}
    texts[META] = (apimachinery / "pkg/apis/meta/v1/types.go").read_text()
    messages = dict(Generator({folder: read(folder, text) for folder, text in texts.items()}).messages())
    kinds = {
        f"{group}/{folder.rpartition('/')[2]}/{name.rpartition('.')[2]}": name
        for folder, group in GROUPS.items()
        for name, rows in messages.items()
        if name.startswith(f"{folder}.") and any(row[1] == "metadata" for row in rows)
    }
    kinds["/v1/DeleteOptions"] = kinds["meta.k8s.io/v1/DeleteOptions"] = f"{META}.DeleteOptions"
    data = json.dumps({"kinds": kinds, "messages": messages}, sort_keys=True, separators=(",", ":")).encode()
    ARTEFACT.write_bytes(gzip.compress(data, 9, mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
