"""The errors of talking to an API server.

::

    ClientError
    ├── TransportError     no response: the outcome of a write is unknown
    │   └── ForeignAnswerError   the response is not an API server's
    ├── StatusError        the server answered with a status of 400 or more
    ├── ManifestError      nothing was sent: the object could not even be made
    └── NoLogError         the log of a run of a container cannot be had any more
"""

from dataclasses import dataclass


class ClientError(Exception):
    """Anything that can go wrong between us and an API server."""


class ManifestError(ClientError):
    """A function of a framework failed to make the object that was to be sent."""


class TransportError(ClientError):
    """No response arrived (connection refused, reset, timed out). A write may or may not have been applied."""


class ForeignAnswerError(TransportError):
    """No API server answers so: a redirect, or a success without an object.

    It comes from something in between, such as a proxy or a login page. A write may or may not have been applied.
    """


class NoLogError(ClientError):
    """The log of a run of a container cannot be had any more, whatever the server answered."""


@dataclass
class StatusError(ClientError):
    """The server answered with an error status.

    `code` is the HTTP status, `reason` the machine-readable reason of the Kubernetes Status object ("" when the body was
    not one), `message` its text, `retry_after` the seconds the server asked us to wait, if it did.
    """

    code: int
    reason: str = ""
    message: str = ""
    retry_after: float | None = None

    @property
    def passing(self) -> bool:
        """Whether the server may answer otherwise soon: it has failed, or is too busy."""
        return self.code == 429 or self.code >= 500

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}" if self.reason else f"{self.code}: {self.message}"
