"""Labels and the annotation prefix on the objects we create. The names are those of the reference operators."""

PREFIX = "training.kubeflow.org/"

OPERATOR_NAME = PREFIX + "operator-name"
JOB_NAME = PREFIX + "job-name"
REPLICA_TYPE = PREFIX + "replica-type"
REPLICA_INDEX = PREFIX + "replica-index"
JOB_ROLE = PREFIX + "job-role"
ATTEMPT = PREFIX + "attempt"
"""The annotation of a pod with the attempt it belongs to."""

JOB_LABELS = (OPERATOR_NAME, JOB_NAME, REPLICA_TYPE, REPLICA_INDEX, JOB_ROLE)
