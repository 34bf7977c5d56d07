"""``jobcommon migrate``: print the migrated objects; what they do not carry goes to standard error."""

import sys
from collections.abc import Sequence

from jobcommon.api.text import clean
from jobcommon.cli.convert import ConvertError
from jobcommon.cli.convert_command import as_yaml
from jobcommon.cli.errors import UserError
from jobcommon.cli.frameworks import installed, of_manifest
from jobcommon.cli.manifests import Manifest
from jobcommon.cli.migrate import Migration, to_trainjob
from jobcommon.cli.plan import checked

TARGET = "trainjob"


def migrated(manifests: Sequence[Manifest], target: str, namespace: str) -> str:
    """The objects as YAML, in order; those that are not to be migrated as they are. Raises `UserError`."""
    if target != TARGET:
        raise UserError(f"--to {target}: use {TARGET}")
    texts, found = [], 0
    for manifest in manifests:
        try:
            done = _forward(manifest, namespace)
        except ConvertError as error:
            raise UserError("\n".join(f"{manifest.place}: {finding}" for finding in error.findings)) from None
        if done is None:
            texts.append(as_yaml(manifest.body))
            continue
        found += 1
        for finding in done.findings:
            sys.stderr.write(f"{clean(f'warning: {manifest.place}: {finding}')}\n")
        texts += [as_yaml(one) for one in done.objects]
    if not found:
        wanted = ", ".join(one.kind for one in installed().values() if one.name != TARGET)
        raise UserError(f"{manifests[0].source}: nothing in it to migrate to {target}; give it a {wanted}")
    return "---\n".join(texts)


def _forward(manifest: Manifest, namespace: str) -> Migration | None:
    framework = of_manifest(manifest.body)
    if framework is None or framework.name == TARGET:
        return None
    return to_trainjob(framework, manifest.body, checked(manifest, framework, namespace))
