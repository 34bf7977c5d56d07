"""A refusal of the API server in words that say what to ask for."""

import re
from collections.abc import Mapping

import msgspec

from jobcommon.client.errors import StatusError

_FORBIDDEN = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)


def explained(error: StatusError) -> str:
    """The refusal in words: for a missing right, which one, and the rule that grants it."""
    if error.code == 401:
        return "the API server does not accept the credentials of the kubeconfig; log in again, see: kubectl auth whoami"
    found = _FORBIDDEN.search(error.message)
    if error.code != 403 or found is None:
        return error.message or str(error)
    right = found.groupdict(default="")
    where = f" in namespace {right['namespace']}" if right["namespace"] else " in the whole cluster"
    rule: Mapping[str, list[str]] = {
        "apiGroups": [right["group"]], "resources": [right["resource"]], "verbs": [right["verb"]],
    }  # fmt: skip
    kind = "Role" if right["namespace"] else "ClusterRole"
    return (
        f"{right['user']} may not {right['verb']} {right['resource']}{where}; "
        f"ask for a {kind} with the rule {msgspec.json.encode(rule).decode()}"
    )
