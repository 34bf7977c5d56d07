"""Checks of what the operators run on: the API server's version, their own Deployments, rights, Kueue, Trainer."""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import partial

from jobcommon.api.kueue import (
    CONFIGURATION,
    INTEGRATED,
    OWN,
    Integrations,
    external_name_of,
    integration_of,
    integrations,
)
from jobcommon.cli.doctor.finding import Finding, Severity
from jobcommon.cli.doctor.operators import OwnOperator
from jobcommon.cli.doctor.state import ClusterState
from jobcommon.framework import Framework

OLDEST = (1, 29)
KUEUE = "kueue.x-k8s.io"
KUEUE_DEPLOYMENT = "kueue-controller-manager"
# The integrations that bring Kueue's webhook for pods: `ImplicitlyEnabledFrameworkNames` in pkg/controller/jobs.
_POD_INTEGRATIONS = {"pod", "deployment", "statefulset", "leaderworkerset.x-k8s.io/leaderworkerset"}
_NO_QUOTA = "such a job with a queue label runs at once, outside of every quota"
_TRAINER, _JOBSET = "trainer.kubeflow.org", "jobset.x-k8s.io"
_TRAINJOB = f"{_TRAINER}/trainjob"
_TRAINER_CONTROLLER = "trainer-controller-manager"


def check_platform(state: ClusterState, frameworks: Sequence[Framework], own: Sequence[OwnOperator]) -> Iterator[Finding]:
    """All of them."""
    yield from _version(state)
    for operator in own:
        yield from _deployment(operator)
    yield from _rights(state)
    if KUEUE in state.groups:
        ours = {kind for operator in own if operator.kueue == OWN for kind in operator.kinds}
        yield from _kueue(state, frameworks, ours)
    if _TRAINER in state.groups and not {"Deployments", "API groups"} & set(state.unread):
        yield from _trainer(state, own)


def _version(state: ClusterState) -> Iterator[Finding]:
    match = re.match(r"v(\d+)\.(\d+)", state.version)
    if match and (int(match[1]), int(match[2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        yield Finding(
            Severity.ERROR, "API server", f"is Kubernetes {state.version}",
            f"the definitions need Kubernetes {oldest} or later", f"upgrade the cluster to Kubernetes {oldest} or later",
        )  # fmt: skip


def _deployment(operator: OwnOperator) -> Iterator[Finding]:
    error, place = partial(Finding, Severity.ERROR, operator.place), f"{operator.name} --namespace {operator.namespace}"
    if not operator.replicas:
        yield error("has 0 replicas", "its jobs do not advance", f"kubectl scale deployment {place} --replicas=1")
    elif not operator.ready:
        yield error("has no pod that is ready", "its jobs do not advance", f"kubectl logs deployment/{place}")


def _rights(state: ClusterState) -> Iterator[Finding]:
    for denied in state.denied:
        by_resource: dict[str, list[str]] = {}
        for right in denied.rights:
            resource = f"{right.resource}.{right.group}" if right.group else right.resource
            by_resource.setdefault(resource, []).append(right.verb)
        where = f"in namespace {denied.namespace}" if denied.namespace else "in all namespaces"
        for resource, verbs in by_resource.items():
            what = f"may not {', '.join(verbs)} {resource} {where}"
            if denied.account:
                why = "the operator is refused with 403, and jobs do not advance"
                fix = "helm upgrade, or kubectl apply -k charts/kustomize/base: the roles come with the operator"
                yield Finding(Severity.ERROR, denied.account, what, why, fix)
            else:
                why = "an operator started with these credentials would be refused"
                fix = "install it with its own account (docs/install.md), or run it as another user"
                yield Finding(Severity.WARNING, "you", what, why, fix)


def _kueue(state: ClusterState, frameworks: Sequence[Framework], ours: Collection[str]) -> Iterator[Finding]:
    """`ours`: the kinds whose Workloads operators of ours own."""
    if state.kueue_configuration is None:
        return
    if (configured := integrations(state.kueue_configuration)) is None:
        subject = f"ConfigMap {CONFIGURATION} of Kueue"
        yield Finding(Severity.UNREAD, subject, "is not a configuration of Kueue", "which kinds Kueue queues is unknown")
        return
    external = {f.kind for f in frameworks if external_name_of(f.api_version, f.kind) in configured.external}
    if configured.frameworks & _POD_INTEGRATIONS:
        yield from _unread_owners(state, [f for f in frameworks if f.kind in {*ours, *external}])
    for framework in frameworks:
        integration = integration_of(framework.api_version, framework.kind)
        if framework.kind in ours:
            yield from _owned_kind(framework, configured)
        elif framework.kind in external and integration not in configured.frameworks:
            what = f"leaves the Workloads of {framework.kind} to an operator that owns them, but no such operator was found"
            fix = "run the operator with --kueue own (the chart's value kueue: own)"
            yield Finding(Severity.WARNING, "Kueue", what, _NO_QUOTA, fix)
        elif integration not in INTEGRATED and not framework.queued_by_kueue:
            yield Finding(Severity.NOTE, "Kueue", f"has no integration of {framework.kind}", _NO_QUOTA)
        elif integration not in configured.frameworks:
            what = f"does not queue {framework.kind}: {integration} is not enabled"
            fix = f"add {integration} to integrations.frameworks in ConfigMap {CONFIGURATION}, and restart Kueue"
            yield Finding(Severity.WARNING, "Kueue", what, _NO_QUOTA, fix)


def _owned_kind(framework: Framework, configured: Integrations) -> Iterator[Finding]:
    """What Kueue's configuration must say of a kind whose Workloads an operator of ours owns."""
    kind, integration = framework.kind, integration_of(framework.api_version, framework.kind)
    name = external_name_of(framework.api_version, kind)
    where = f"in ConfigMap {CONFIGURATION}, and restart Kueue"
    if integration in configured.frameworks:
        yield Finding(
            Severity.ERROR, "Kueue", f"queues {kind} itself, and the operator owns its Workloads (--kueue own)",
            "the operator does not start; if it runs, a job is queued twice, and takes its quota twice",
            f"remove {integration} from integrations.frameworks and add {name} to integrations.externalFrameworks {where}",
        )  # fmt: skip
    elif name not in configured.external:
        yield Finding(
            Severity.WARNING, "Kueue", f"does not know that the operator owns the Workloads of {kind}",
            "its integration of pods may queue each pod of a job once more",
            f"add {name} to integrations.externalFrameworks {where}",
        )  # fmt: skip


def _unread_owners(state: ClusterState, frameworks: Sequence[Framework]) -> Iterator[Finding]:
    """What Kueue's account may not read of the kinds that its configuration names."""
    lacking = state.kueue_denied.rights if state.kueue_denied is not None else ()
    for framework in frameworks:
        verbs = [right.verb for right in lacking if (right.group, right.resource) == (framework.group, framework.plural)]
        if verbs and state.kueue_denied is not None:
            yield Finding(
                Severity.ERROR, state.kueue_denied.account, f"may not {', '.join(verbs)} {framework.plural}.{framework.group}",
                f"Kueue's webhook for pods reads the {framework.kind} of each pod, so no pod of one can be created",
                "helm upgrade with the chart's value kueueServiceAccount, or bind the ClusterRole NAME-kueue-reads of "
                "jobcommon rbac to it",
            )  # fmt: skip


def _trainer(state: ClusterState, own: Sequence[OwnOperator]) -> Iterator[Finding]:
    """Whether a controller of TrainJobs runs, one only, and whether Kueue finds what it waits for."""
    configured = integrations(state.kueue_configuration or {})
    queues = configured is None or _TRAINJOB in configured.frameworks
    if queues and KUEUE in state.groups and _JOBSET not in state.groups:
        yield Finding(
            Severity.ERROR, "Kueue", "waits for the definition of JobSet, because TrainJob has one",
            "its manager ends two minutes after each start, and queues nothing",
            "install the chart trainjob-operator, which has an empty one, or JobSet itself",
        )  # fmt: skip
    templates = (((one.get("spec") or {}).get("template") or {}).get("spec") or {} for one in state.deployments)
    images = (str(container.get("image")) for template in templates for container in template.get("containers") or ())
    ours = any("TrainJob" in operator.kinds for operator in own)
    if any(_TRAINER_CONTROLLER in image for image in images):
        if ours:
            yield Finding(
                Severity.WARNING, "TrainJobs", f"have two controllers: {_TRAINER_CONTROLLER} and ours",
                "ours does not act while Trainer's holds its lease", "remove one of the two (docs/kubeflow-sdk.md)",
            )  # fmt: skip
    elif not ours and not state.may_hide_operators:
        yield Finding(
            Severity.WARNING, "TrainJobs", f"are served by {_TRAINER}, and no Deployment of {_TRAINER_CONTROLLER} was found",
            "a TrainJob gets no pods, and TrainerClient.train() does not say so",
            "install the chart trainjob-operator, or Trainer's controller (docs/kubeflow-sdk.md)",
        )  # fmt: skip
