"""The optional features of jobs, in the order in which they are asked."""

import re
from functools import cache
from itertools import combinations

from pydantic.alias_generators import to_snake

from jobcommon.api.job import RunPolicy
from jobcommon.api.status import JobStatus
from jobcommon.framework import Feature, Framework
from jobcommon.reconcile.elastic import Elastic
from jobcommon.reconcile.gang import Gang
from jobcommon.reconcile.in_place import InPlace
from jobcommon.reconcile.kueue import Queue
from jobcommon.reconcile.node_loss import NodeLoss
from jobcommon.reconcile.progress import ReportedProgress
from jobcommon.reconcile.reports import Reporting
from jobcommon.reconcile.view import Part

_NAME = re.compile(r"[a-z][A-Za-z0-9]{0,62}")


@cache
def verified(features: tuple[type[Feature], ...]) -> tuple[type[Part], ...]:
    """The features, to be asked in that order.

    Raises ValueError if one cannot be used, if two record one field of the status, or one a field that the status does not
    have: the API server would drop it, and it would be written again in each pass.
    """
    parts = tuple(one for one in features if issubclass(one, Part))
    for one in features:
        if one not in parts:
            raise ValueError(f"{one.__name__} is no PodShape, Admission or Lifecycle")
        if (one.spec or one.status) and not _NAME.fullmatch(one.name):
            raise ValueError(f"{one.__name__} has the name {one.name!r}; a field of the API needs one like maintenanceWindow")
        if one.spec and to_snake(one.name) in RunPolicy.model_fields:
            raise ValueError(f"{one.__name__} has the name {one.name}, which is a field of runPolicy already")
        if unknown := sorted({*one.fields} - JobStatus.model_fields.keys()):
            raise ValueError(f"{one.__name__} records {', '.join(unknown)}, which JobStatus does not have")
    for one, other in combinations(features, 2):
        both = sorted({*one.fields} & {*other.fields}) or [name for name in (one.name,) if name and name == other.name]
        if both:
            raise ValueError(f"{one.__name__} and {other.__name__} both record {', '.join(both)}")
    return parts


FEATURES = verified((NodeLoss, Reporting, ReportedProgress, InPlace, Elastic, Gang, Queue))
"""Those of this library, which a framework has unless it names others."""


def features_of(framework: Framework) -> tuple[type[Part], ...]:
    """The features of the framework's jobs."""
    return FEATURES if framework.features is None else verified(framework.features)
