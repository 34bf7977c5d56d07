"""``jobcommon migrate``: print the migrated objects; what they do not carry goes to standard error."""

import sys
from collections.abc import Sequence

from jobcommon.api.terminal import clean
from jobcommon.cli.convert import ConvertError
from jobcommon.cli.convert_command import as_yaml
from jobcommon.cli.errors import UserError
from jobcommon.cli.frameworks import installed, of_manifest
from jobcommon.cli.manifests import Manifest
from jobcommon.cli.migrate import API_VERSION, Migration, to_trainjob, to_v1
from jobcommon.cli.plan import checked

TARGETS = ("trainjob", "v1")
_GROUP = API_VERSION.partition("/")[0]
_RUNTIMES = ("TrainingRuntime", "ClusterTrainingRuntime")


def migrated(manifests: Sequence[Manifest], target: str, namespace: str) -> str:
    """The objects as YAML, in order; those that are not to be migrated as they are. Raises `UserError`."""
    if target not in TARGETS:
        raise UserError(f"--to {target}: use {' or '.join(TARGETS)}")
    runtimes = {(one.kind, one.name): one for one in manifests if _of_trainer(one) and one.kind in _RUNTIMES}
    texts, found = [], 0
    for manifest in manifests:
        try:
            done = _forward(manifest, namespace) if target == "trainjob" else _back(manifest, runtimes)
        except ConvertError as error:
            raise UserError("\n".join(f"{manifest.place}: {finding}" for finding in error.findings)) from None
        if done is None:
            if target == "trainjob" or (manifest.kind, manifest.name) not in runtimes:
                texts.append(as_yaml(manifest.body))
            continue
        found += 1
        for finding in done.findings:
            sys.stderr.write(f"{clean(f'warning: {manifest.place}: {finding}')}\n")
        texts += [as_yaml(one) for one in done.objects]
    if not found:
        wanted = "TrainJob" if target == "v1" else f"{', '.join(one.kind for one in installed().values())}"
        raise UserError(f"{manifests[0].source}: nothing in it to migrate to {target}; give it a {wanted}")
    return "---\n".join(texts)


def _forward(manifest: Manifest, namespace: str) -> Migration | None:
    framework = of_manifest(manifest.body)
    if framework is None:
        return None
    return to_trainjob(framework, manifest.body, checked(manifest, framework, namespace))


def _back(manifest: Manifest, runtimes: dict[tuple[str, str], Manifest]) -> Migration | None:
    if not _of_trainer(manifest) or manifest.kind != "TrainJob":
        return None
    reference = (manifest.body.get("spec") or {}).get("runtimeRef") or {}
    kind, name = str(reference.get("kind") or "ClusterTrainingRuntime"), str(reference.get("name", ""))
    if (kind, name) not in runtimes:
        raise UserError(
            f"{manifest.place}: spec.runtimeRef: {kind} {name} is not in the input; add it: "
            f"kubectl get {kind.lower()} {name} -o yaml"
        )
    return to_v1(manifest.body, runtimes[kind, name].body, list(installed().values()))


def _of_trainer(manifest: Manifest) -> bool:
    return str(manifest.body["apiVersion"]).partition("/")[0] == _GROUP
