"""What a valid TrainJob or its runtime says in vain, or to the SDK's harm."""

from collections.abc import Callable, Sequence

from jobcommon import Check, Framework, mapping_of
from jobcommon.operators.trainjob.kinds import GROUP
from jobcommon.operators.trainjob.resolved import Json, Resolved

GONE = "gone"
"""Beside the fields of a runtime: whether it is known from the job's own copy alone."""
_DEVICES = ("cpu", "nvidia.com/gpu", "google.com/tpu", "huawei.com/Ascend910")


def _without_effect(_framework: Framework, resolved: Resolved, _runtime: Json) -> str | None:
    if not resolved.ignored:
        return None
    return (
        f"{', '.join(resolved.ignored)} of the runtime: not used by this operator; see docs/deviations.md for what is instead"
    )


def _deprecated(_framework: Framework, _resolved: Resolved, runtime: Json) -> str | None:
    metadata = mapping_of(runtime.get("metadata"))
    if mapping_of(metadata.get("labels")).get(f"{GROUP}/support") != "deprecated":
        return None
    return f"the runtime {metadata.get('name')} is deprecated and will be removed: use another one"


def _without_device(_framework: Framework, resolved: Resolved, _runtime: Json) -> str | None:
    main = resolved.trainer.template["spec"]["containers"][0] if resolved.trainer is not None else {}
    limits = mapping_of(mapping_of(main.get("resources")).get("limits"))
    if not limits or any(name in _DEVICES or name.startswith("nvidia.com/mig-") for name in map(str, limits)):
        return None
    return (
        f"the limits of the trainer name no device that the Kubeflow SDK knows, with which get_job() fails: add {_DEVICES[0]}"
    )


def _gone(_framework: Framework, _resolved: Resolved, runtime: Json) -> str | None:
    if not runtime.get(GONE):
        return None
    name = mapping_of(runtime.get("metadata")).get("name")
    return f"the runtime {name} was deleted: the job goes on with its copy, but get_job() of the Kubeflow SDK fails without it"


def _without_gang(framework: Framework, resolved: Resolved, _runtime: Json) -> str | None:
    if not resolved.gang or framework.options.gang is not None:
        return None
    return (
        f"podGroupPolicy {resolved.gang} of the runtime: this operator runs without --gang-scheduler-name, so pods start alone"
    )


_ALL: Sequence[tuple[str, str, Callable[[Framework, Resolved, Json], str | None]]] = (
    (
        "WithoutEffect",
        "the runtime has fields of a batch Job, such as `podFailurePolicy`, or rules of a failure policy that need a message",
        _without_effect,
    ),
    ("DeprecatedRuntime", f"the runtime has the label `{GROUP}/support: deprecated`", _deprecated),
    ("RuntimeGone", "the runtime was deleted after the job had begun", _gone),
    ("NoGangScheduler", "the runtime has a `podGroupPolicy`, and the operator no gang scheduler", _without_gang),
    ("DeviceUnknown", "`limits` of the trainer have neither `cpu` nor a device that the Kubeflow SDK knows", _without_device),
)


def checks(resolved: Resolved | None = None, runtime: Json | None = None) -> tuple[Check, ...]:
    """Those of one job; without a job they find nothing."""
    if resolved is None or runtime is None:
        return tuple(Check(name, about, lambda _framework, _job: None) for name, about, _ in _ALL)
    return tuple(Check(name, about, lambda of, _job, find=find: find(of, resolved, runtime)) for name, about, find in _ALL)  # type: ignore[misc]
