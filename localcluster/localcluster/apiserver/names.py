"""The rules for names, labels and annotations (k8s.io/apimachinery util/validation and api/validation)."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, invalid, required

_DNS1123_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS1123_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DNS1035_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_ENV_NAME = re.compile(r"[ -<>-~]+")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_PORT_NAME = re.compile(r"[a-z0-9-]+")
_FIELD_PATH = re.compile(
    r"metadata\.(name|namespace|uid|labels|annotations)|metadata\.(labels|annotations)\['[^']+'\]|"
    r"spec\.(nodeName|serviceAccountName)|status\.(hostIP|hostIPs|podIP|podIPs)"
)
_AMOUNT_PATH = re.compile(r"(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-.+)")

_ANNOTATION_LIMIT = 256 * 1024

NameRule = Callable[[str], Sequence[str]]


def _regex_error(what: str, pattern: re.Pattern[str], *examples: str) -> str:
    told = ",  or ".join(f"'{example}'" for example in examples)
    return f"{what} (e.g. {told}, regex used for validation is '{pattern.pattern}')"


def _at_most(length: int) -> str:
    return f"must be no more than {length} bytes"


_LABEL_TEXT = _regex_error(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character",
    _DNS1123_LABEL, "my-name", "123-abc",
)  # fmt: skip
_SUBDOMAIN_TEXT = _regex_error(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character",
    _DNS1123_SUBDOMAIN, "example.com",
)  # fmt: skip
_DNS1035_TEXT = _regex_error(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character",
    _DNS1035_LABEL, "my-name", "abc-123",
)  # fmt: skip
_QUALIFIED_TEXT = _regex_error(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    _QUALIFIED, "MyName", "my.name", "123-abc",
)  # fmt: skip
_LABEL_VALUE_TEXT = _regex_error(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character",
    _LABEL_VALUE, "MyValue", "my_value", "12345",
)  # fmt: skip


def _checked(value: str, pattern: re.Pattern[str], limit: int, text: str) -> Sequence[str]:
    problems = []
    if len(value) > limit:
        problems.append(_at_most(limit))
    if not pattern.fullmatch(value):
        problems.append(text)
    return problems


def dns1123_label(value: str) -> Sequence[str]:
    """At most 63 characters: container names, hostnames, namespaces."""
    dotted = _DNS1123_SUBDOMAIN.fullmatch(value)
    return _checked(value, _DNS1123_LABEL, 63, "must not contain dots" if dotted else _LABEL_TEXT)


def dns1123_subdomain(value: str) -> Sequence[str]:
    """At most 253 characters: most object names."""
    return _checked(value, _DNS1123_SUBDOMAIN, 253, _SUBDOMAIN_TEXT)


def dns1035_label(value: str) -> Sequence[str]:
    """At most 63 characters, starting with a letter: service names of every supported release."""
    return _checked(value, _DNS1035_LABEL, 63, _DNS1035_TEXT)


def path_segment(value: str) -> Sequence[str]:
    """Names of RBAC objects: anything that can be one segment of a path."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{part}'" for part in "/%" if part in value]


def qualified_name(value: str) -> Sequence[str]:
    """Label and annotation keys, finalizers: an optional DNS prefix, a slash, and at most 63 characters."""
    prefix, slash, name = value.rpartition("/")
    problems: list[str] = []
    if slash:
        if not prefix:
            problems.append("prefix part must be non-empty")
        elif "/" in prefix:
            told = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            return [f"a valid label key {_QUALIFIED_TEXT} {told}"]
        else:
            problems += [f"prefix part {problem}" for problem in dns1123_subdomain(prefix)]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append(f"name part {_at_most(63)}")
    if not _QUALIFIED.fullmatch(name):
        problems.append(f"name part {_QUALIFIED_TEXT}")
    return problems


def label_value(value: str) -> Sequence[str]:
    """At most 63 characters, may be empty."""
    return _checked(value, _LABEL_VALUE, 63, _LABEL_VALUE_TEXT)


def env_name(value: str) -> Sequence[str]:
    """Printable ASCII characters but for ``=``."""
    told = "a valid environment variable name must consist only of printable ASCII characters other than '='"
    return [] if _ENV_NAME.fullmatch(value) else [told]


def config_key(value: str) -> Sequence[str]:
    """Keys of config maps and secrets."""
    problems = []
    if len(value) > 253:
        problems.append(_at_most(253))
    if not _CONFIG_KEY.fullmatch(value):
        told = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        problems.append(_regex_error(told, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    elif value in (".", "..") or value.startswith("../"):
        problems.append(f"must not be '{value}'")
    return problems


def port_name(value: str) -> Sequence[str]:
    """An IANA service name: at most 15 characters with at least one letter."""
    problems = []
    if len(value) > 15:
        problems.append("must be no more than 15 characters")
    if not _PORT_NAME.fullmatch(value):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    elif "--" in value:
        problems.append("must not contain consecutive hyphens")
    if not re.search(r"[a-z]", value):
        problems.append("must contain at least one letter (a-z)")
    if value.startswith("-") or value.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def image(value: str) -> Sequence[str]:
    """An image reference; most of its form is the node's concern."""
    return [] if value == value.strip() else ["must not have leading or trailing whitespace"]


def inside(value: str) -> Sequence[str]:
    """A path inside a volume."""
    problems = ["must be a relative path"] if value.startswith("/") else []
    return [*problems, "must not contain '..'"] if ".." in value.split("/") else problems


def absolute(value: str) -> Sequence[str]:
    """A path from the root on."""
    return [] if value.startswith("/") else ["must be an absolute path"]


def host_path(value: str) -> Sequence[str]:
    """A path on the node."""
    return ["must not contain '..'"] if ".." in value.split("/") else []


def given(_: str) -> Sequence[str]:
    """Any text."""
    return []


def field_path(value: str) -> Sequence[str]:
    """A field of a pod, for an environment variable or a file."""
    return [] if _FIELD_PATH.fullmatch(value) else [f"field label not supported: {value}"]


def amount_path(value: str) -> Sequence[str]:
    """A request or limit, for an environment variable or a file."""
    return [] if _AMOUNT_PATH.fullmatch(value) else ["must be a limit or request, such as limits.cpu or requests.memory"]


#: The rules of built-in kinds by their names as formats of a JSON Schema.
FORMATS: Mapping[str, NameRule] = {
    rule.__name__: rule
    for rule in (
        absolute, amount_path, config_key, dns1123_label, dns1123_subdomain, env_name, field_path, given, host_path, image,
        inside, port_name, qualified_name,
    )
}  # fmt: skip


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
