"""The limits on a job as a whole."""

from typing import Any

from jobcommon.cli.convert.section import Section


def read_termination(section: Section) -> dict[str, Any]:
    """``termination``: maxRetries, ttl and timeout in seconds."""
    found = {
        "backoffLimit": section.integer("max_retries"),
        "ttlSecondsAfterFinished": section.integer("ttl"),
        "activeDeadlineSeconds": section.integer("timeout", least=1, most=10 * 365 * 24 * 3600),
    }
    section.cannot("is watched by the Polyaxon platform, which is not available here", "culling", "probe", "activity_probe")
    section.close()
    return {key: value for key, value in found.items() if value is not None}
