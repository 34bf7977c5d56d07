"""Whether a real API server would take a pod, without a server."""

from collections.abc import Sequence
from typing import Any

from localcluster.apiserver import typed
from localcluster.apiserver.errors import ApiError
from localcluster.apiserver.kinds import pods


def pod_errors(pod: dict[str, Any]) -> Sequence[str]:
    """Why the creation of a pod would be refused: a line for each field. What admission asks of other objects is left out."""
    try:
        decoded, _ = typed.decode("", "v1", "Pod", pod)
    except ApiError as error:
        return [error.message]
    decoded.setdefault("metadata", {})
    pods.default(decoded)
    return [str(cause) for cause in (*pods.validate(decoded), *pods.validate_new(decoded))]
