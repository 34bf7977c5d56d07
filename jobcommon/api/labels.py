"""Labels and the annotation prefix on the objects we create. The names are those of the reference operators."""

from collections.abc import Mapping
from typing import Any

PREFIX = "training.kubeflow.org/"

OPERATOR_NAME = PREFIX + "operator-name"
JOB_NAME = PREFIX + "job-name"
REPLICA_TYPE = PREFIX + "replica-type"
REPLICA_INDEX = PREFIX + "replica-index"
JOB_ROLE = PREFIX + "job-role"
ATTEMPT = PREFIX + "attempt"
"""The annotation of a pod with the attempt it belongs to."""
PROGRESS_CA = PREFIX + "progress-ca"
"""The annotation of a pod with the certificate, as PEM, by which its program knows the operator's server of reports."""
EARLIER_RUNS = PREFIX + "earlier-runs"
"""The annotation of a pod that was restarted in place: how many runs of its containers belong to earlier attempts."""
STOP_ORDERED = PREFIX + "stop-ordered"
"""The annotation of a pod whose program is being stopped in place: when the operator has asked for that."""
IMAGE = PREFIX + "image"
"""The annotation of a pod that can be restarted in place: the image of its main container in the template it was made from."""
TEMPLATE = PREFIX + "template-hash"
"""The annotation of such a pod that says which template it was made from."""
SIZE = PREFIX + "size"
"""The annotation of a pod with the size of the attempt that it was made for, as in Master=1,Worker=2."""
SPARE = PREFIX + "spare"
"""The annotation of a pod that is "true" while it asks for a node for a larger attempt, and its program does not run."""
EXPIRED = PREFIX + "expired"
"""The annotation of a pod that is "true" once the operator has given it a deadline that has passed: its kubelet ends it."""
VARIABLE = PREFIX + "env."
"""With the name of an environment variable, the annotation of a pod from which the kubelet reads its value."""
SAFE_TO_DELETE = "kueue.x-k8s.io/safe-to-forcefully-delete"
"""The annotation of a pod that may be deleted by force: its program does no harm if it runs twice. Kueue has the same one."""

GANG = PREFIX + "gang"
"""The annotation of a pod with its place in a gang."""
POD_ANNOTATIONS = (ATTEMPT, EARLIER_RUNS, STOP_ORDERED, IMAGE, TEMPLATE, SIZE, SPARE, EXPIRED, GANG, SAFE_TO_DELETE)
"""Those that are read from pods. A user who may change a pod can add others, of any size."""

JOB_LABELS = (OPERATOR_NAME, JOB_NAME, REPLICA_TYPE, REPLICA_INDEX, JOB_ROLE)


def of_template(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The labels or annotations of a pod template that its pods get: all but ours, with which a pod would be taken for another
    than it is, or its failed runs for counted ones.
    """
    return {name: value for name, value in (given or {}).items() if not name.startswith(PREFIX)}
