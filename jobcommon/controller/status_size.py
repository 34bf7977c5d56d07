"""Statuses that cannot be stored for their size: a job whose spec all but fills what etcd takes leaves little room."""

from jobcommon.api.status import JobStatus
from jobcommon.client.errors import ClientError, StatusError

#: Of a message so much is kept.
SHORT_MESSAGE = 128
#: What the API server (request body), etcd and etcd's client say; only the first has a code of its own.
_TOO_LARGE = 413
_WORDS = ("too large", "larger than max")


def is_too_large(error: ClientError | None) -> bool:
    """Whether a write was refused for its size."""
    return isinstance(error, StatusError) and (error.code == _TOO_LARGE or any(word in error.message for word in _WORDS))


def shortened(status: JobStatus) -> JobStatus:
    """The status with all that decisions depend on, but without the story of the failures and with short messages."""
    conditions = [c.model_copy(update={"message": c.message[:SHORT_MESSAGE]}) for c in status.conditions]
    return status.model_copy(update={"failures": [], "conditions": conditions})
