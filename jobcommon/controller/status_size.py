"""Statuses that are too large to be stored: the spec of a job can all but fill etcd's limit on an object's size."""

from jobcommon.api.status import JobStatus
from jobcommon.client.errors import ClientError, StatusError

#: The characters that are kept of a message.
SHORT_MESSAGE = 128
#: The messages of the API server (request body), etcd and etcd's client; only the first has a code of its own.
_TOO_LARGE = 413
_WORDS = ("too large", "larger than max")


def is_status_too_large(error: ClientError | None) -> bool:
    """Whether a write was refused because of its size."""
    return isinstance(error, StatusError) and (error.code == _TOO_LARGE or any(word in error.message for word in _WORDS))


def shortened_status(status: JobStatus) -> JobStatus:
    """The status with everything that decisions depend on, but without the list of failures and with short messages."""
    conditions = [c.model_copy(update={"message": c.message[:SHORT_MESSAGE]}) for c in status.conditions]
    cause = status.last_restart_cause and status.last_restart_cause[:SHORT_MESSAGE]
    return status.model_copy(update={"failures": [], "conditions": conditions, "last_restart_cause": cause})
