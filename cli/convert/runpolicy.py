"""The limits on a job as a whole."""

from typing import Any

from jobcommon.cli.convert.section import Section

_CLEAN = ("All", "Running", "None")
_GANG = {
    "min_available": "minAvailable",
    "queue": "queue",
    "min_resources": "minResources",
    "priority_class": "priorityClass",
    "schedule_timeout_seconds": "scheduleTimeoutSeconds",
}


def read_termination(section: Section) -> dict[str, Any]:
    """``termination``: maxRetries, ttl and timeout in seconds."""
    found = {
        "backoffLimit": section.integer("max_retries"),
        "ttlSecondsAfterFinished": section.integer("ttl"),
        "activeDeadlineSeconds": section.integer("timeout", least=1, most=10 * 365 * 24 * 3600),
    }
    section.cannot("is watched by the Polyaxon platform, which is not here", "culling", "probe", "activity_probe")
    section.close()
    return {key: value for key, value in found.items() if value is not None}


def read_clean_pod_policy(section: Section) -> dict[str, Any]:
    """``cleanPodPolicy``; without one the operator's default holds."""
    path, value = section.at("clean_pod_policy"), section.text("clean_pod_policy")
    if value is None:
        return {}
    known = next((policy for policy in _CLEAN if policy.lower() == value.lower()), None)
    if known is None:
        section.notes.error(path, f"{value[:40]} is not supported: use one of {', '.join(_CLEAN)}")
        return {}
    return {"cleanPodPolicy": known}


def read_scheduling_policy(section: Section) -> dict[str, Any]:
    """``schedulingPolicy``, for gang scheduling."""
    if not section.has("scheduling_policy"):
        return {}
    policy = section.section("scheduling_policy")
    found: dict[str, Any] = {}
    for key, name in _GANG.items():
        if not policy.has(key):
            continue
        if key in ("min_available", "schedule_timeout_seconds"):
            found[name] = policy.integer(key)
        elif key == "min_resources":
            found[name] = policy.texts(key)
        else:
            found[name] = policy.text(key)
    policy.close()
    return {"schedulingPolicy": {key: value for key, value in found.items() if value not in (None, {})}}
