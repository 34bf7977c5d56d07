"""The kinds of Kubeflow Trainer: their schemas, which are data, and reading an object by its own."""

from functools import cache, partial
from importlib import resources
from typing import Any

import yaml

from jobcommon import Definition, FieldError, RelatedKind, mapping_of, structural_errors, without_nulls

GROUP = "trainer.kubeflow.org"
API_VERSION = f"{GROUP}/v1alpha1"
CLUSTER_RUNTIME, RUNTIME = "ClusterTrainingRuntime", "TrainingRuntime"
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
STEP_LABEL = f"{GROUP}/trainjob-ancestor-step"
#: What runPolicy of other kinds says, and a TrainJob itself.
OWN_FIELDS = ("suspend", "managedBy", "activeDeadlineSeconds")
Json = dict[str, Any]


def data(file: str) -> Any:
    """What is in a data file of this package, as a list of documents."""
    text = resources.files("jobcommon.operators.trainjob").joinpath(file).read_text("utf-8")
    return list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


@cache
def document(kind: str) -> Json:
    """The schemas of a kind: TrainJob, or Runtime. Read only."""
    found: Json = data("kinds.yaml")[0][kind]
    return found


def read(kind: str, value: object, path: str, errors: list[FieldError], *below: str) -> Json:
    """The spec, or what is `below` it, without fields that are null; its errors are added to `errors`.

    Without errors each part is of the type that the schema says, but for parts of pods.
    """
    node = document(kind)["spec"]
    for name in below:
        node = node["properties"][name]
    found: Json = without_nulls(node, dict(mapping_of(value)))
    errors += structural_errors(node, found, path, prunes=True)
    return found


TRAINJOB_DEFINITION = Definition(partial(document, "TrainJob"))
_RUNTIME_DEFINITION = Definition(partial(document, "Runtime"))
RUNTIMES = (
    RelatedKind(API_VERSION, CLUSTER_RUNTIME, "clustertrainingruntimes", namespaced=False, definition=_RUNTIME_DEFINITION),
    RelatedKind(API_VERSION, RUNTIME, "trainingruntimes", definition=_RUNTIME_DEFINITION),
)
