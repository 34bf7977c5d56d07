"""The optional features of jobs, in the order in which they are asked."""

from itertools import combinations

from jobcommon.api.status import JobStatus
from jobcommon.reconcile.elastic import Elastic
from jobcommon.reconcile.gang import Gang
from jobcommon.reconcile.in_place import InPlace
from jobcommon.reconcile.kueue import Queue
from jobcommon.reconcile.node_loss import NodeLoss
from jobcommon.reconcile.progress import ReportedProgress
from jobcommon.reconcile.reports import Reporting
from jobcommon.reconcile.view import Part


def asked_in_order(*features: type[Part]) -> tuple[type[Part], ...]:
    """The features, to be asked in that order.

    Raises ValueError if two record one field of the status, or one a field that the status does not have: the API server would
    drop it, and it would be written again in each pass.
    """
    for one in features:
        if unknown := sorted({*one.fields} - JobStatus.model_fields.keys()):
            raise ValueError(f"{one.__name__} records {', '.join(unknown)}, which JobStatus does not have")
    for one, other in combinations(features, 2):
        if both := sorted({*one.fields} & {*other.fields}):
            raise ValueError(f"{one.__name__} and {other.__name__} both record {', '.join(both)}")
    return features


FEATURES = asked_in_order(NodeLoss, Reporting, ReportedProgress, InPlace, Elastic, Gang, Queue)
