"""The rules for names, labels and annotations (k8s.io/apimachinery util/validation and api/validation)."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, invalid, required

NameRule = Callable[[str], Sequence[str]]
_ANNOTATION_LIMIT = 256 * 1024
_PREFIX = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"


def _rule(pattern: str, text: str, most: int | None = None) -> NameRule:
    """At most so many characters, all of which the pattern matches: what is wrong with a value, in these words."""
    compiled = re.compile(pattern, re.DOTALL)

    def problems(value: str) -> Sequence[str]:
        long = most is not None and len(value) > most
        found = [f"must be no more than {most} bytes"] if long else []
        return found if compiled.fullmatch(value) else [*found, text.format(pattern=pattern)]

    return problems


_ALPHANUMERIC = "must start and end with an alphanumeric character (regex used for validation is '{pattern}')"
#: Container names, hostnames, namespaces.
dns1123_label = _rule(
    "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and {_ALPHANUMERIC}", 63,
)  # fmt: skip
#: Most object names.
dns1123_subdomain = _rule(
    _PREFIX,
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and {_ALPHANUMERIC}", 253,
)  # fmt: skip
#: Service names of every supported release.
dns1035_label = _rule(
    "[a-z]([-a-z0-9]*[a-z0-9])?",
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end "
    "with an alphanumeric character", 63,
)  # fmt: skip
#: Names of RBAC objects: anything that can be one segment of a path.
path_segment = _rule(r"(?!\.\.?$)[^/%]+", "may not be '.' or '..' and may not contain '/' or '%'")
#: May be empty.
label_value = _rule(
    f"({_NAME})?",
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and {_ALPHANUMERIC}", 63,
)  # fmt: skip
#: Keys of config maps and secrets.
config_key = _rule(
    r"(?!\.\.?$|\.\./)[-._a-zA-Z0-9]+", "a valid config key must consist of alphanumeric characters, '-', '_' or '.'", 253
)
_qualified = _rule(
    rf"(?:{_PREFIX}/)?{_NAME}",
    "must consist of alphanumeric characters, '-', '_' or '.', start and end with an alphanumeric character, and may have a "
    "DNS subdomain before a '/', as example.com/MyName",
)  # fmt: skip


def qualified_name(value: str) -> Sequence[str]:
    """Label and annotation keys, finalizers: an optional DNS prefix, a slash, and at most 63 characters."""
    long = len(value.rpartition("/")[2]) > 63
    return [*(["name part must be no more than 63 bytes"] if long else []), *_qualified(value)]


#: The rules of built-in kinds by their names as formats of a JSON Schema.
FORMATS: Mapping[str, NameRule] = {
    "absolute": _rule("/.*", "must be an absolute path"),
    "amount_path": _rule(
        r"(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-.+)",
        "must be a limit or request, such as limits.cpu or requests.memory",
    ),
    "config_key": config_key,
    "dns1123_label": dns1123_label,
    "dns1123_subdomain": dns1123_subdomain,
    "env_name": _rule(
        "[ -<>-~]+", "a valid environment variable name must consist only of printable ASCII characters other than '='"
    ),
    "field_path": _rule(
        r"metadata\.(name|namespace|uid|labels|annotations)|metadata\.(labels|annotations)\['[^']+'\]|"
        r"spec\.(nodeName|serviceAccountName)|status\.(hostIP|hostIPs|podIP|podIPs)",
        "field label not supported",
    ),
    "given": _rule(".*", ""),
    "host_path": _rule(r"(?!(.*/)?\.\.(/|$)).*", "must not contain '..'"),
    "image": _rule(r"(?!\s).*(?<!\s)", "must not have leading or trailing whitespace"),
    "inside": _rule(r"(?!/|(.*/)?\.\.(/|$)).*", "must be a relative path without '..'"),
    # An IANA service name.
    "port_name": _rule(
        "(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*",
        "must consist of alphanumeric characters (a-z, 0-9) and single hyphens between them, with at least one letter",
        15,
    ),
    "qualified_name": qualified_name,
}


def check(rule: NameRule, path: str, value: str) -> list[Cause]:
    """One cause per broken part of `rule`."""
    return [invalid(path, value, problem) for problem in rule(value)]


def check_labels(labels: Mapping[str, Any], path: str) -> list[Cause]:
    """Keys and values of a label map."""
    causes: list[Cause] = []
    for key, value in labels.items():
        causes += check(qualified_name, path, key)
        causes += check(label_value, path, str(value))
    return causes


def check_annotations(annotations: Mapping[str, Any], path: str) -> list[Cause]:
    """Keys of an annotation map, and its total size of at most 256 KiB."""
    causes: list[Cause] = []
    size = 0
    for key, value in annotations.items():
        causes += check(qualified_name, path, key.lower())
        size += len(key.encode()) + len(str(value).encode())
    if size > _ANNOTATION_LIMIT:
        causes.append(Cause("FieldValueTooLong", path, f"Too long: may not be more than {_ANNOTATION_LIMIT} bytes"))
    return causes


def check_name(rule: NameRule, meta: Mapping[str, Any]) -> list[Cause]:
    """metadata.name, which generateName has filled in by now."""
    name = meta.get("name") or ""
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    return check(rule, "metadata.name", name)
