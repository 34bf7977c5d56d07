"""A job that is labelled for a queue of Kueue while nothing queues it: it starts at once, outside all quota."""

from jobcommon.api import labels
from jobcommon.api.kueue import QUEUE_LABEL as QUEUE_LABEL
from jobcommon.api.kueue import integration_of
from jobcommon.framework import Job

UNQUEUED = labels.PREFIX + "unqueued"
"""The annotation of a job that may have a queue's label and run without it, with the value ``allowed``."""


def not_queued(job: Job) -> str:
    """That the job is not queued, and what to change; "" for a job that is, or that needs no queue.

    Kueue's webhook suspends each new job of a kind whose integration is on, and Kueue later sets `suspend` to false. Since
    Kueue 0.19.0 most kinds of kubeflow.org are off by default (kueue#12606): such a job has no `suspend`.
    """
    queue = job.labels.get(QUEUE_LABEL)
    if not queue or job.options.kueue or job.run_policy.suspend is not None or job.annotations.get(UNQUEUED) == "allowed":
        return ""
    integration = integration_of(job.api_version, job.kind)
    return (
        f"not queued: the label {QUEUE_LABEL} names queue {queue}, but Kueue has not suspended the job; add {integration} to "
        f"integrations.frameworks of Kueue's configuration, or annotate the job with {UNQUEUED}=allowed"
    )
