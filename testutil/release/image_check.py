"""``python -m jobcommon.testutil.release.image_check IMAGE``: whether the operators' image is what the chart expects.

The operators run in it as the chart's Deployment says, on the embedded cluster, and take a job through its lifecycle.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from jobcommon.testutil.processes import ROOT
from jobcommon.testutil.real.cluster import OPERATORS, RIGHTS
from jobcommon.testutil.release import lifecycle
from jobcommon.testutil.release.buildah import buildah, mounted, why_not
from jobcommon.testutil.release.consistency import version_of
from jobcommon.testutil.release.program import ReleaseError, output_of
from jobcommon.testutil.release.sandbox import Sandbox

#: What an operator in a cluster needs none of: ours, and what installs packages.
LEFT_OUT = ("localcluster", "jobcommon/testutil", "pip", "pip-*", "pip3*", "ensurepip", "setuptools", "setuptools-*")
#: Prints the rights of a process in the container, and where it can write.
PROBE = """
import os
status = dict(line.strip().partition(":\\t")[::2] for line in open("/proc/self/status"))
print(os.getuid(), os.getgid(), os.getgroups(), "caps", int(status["CapEff"], 16), "no-new-privs", status["NoNewPrivs"])
if not os.statvfs("/").f_flag & os.ST_RDONLY:
    print("the root file system is not read-only")
for directory, below, _ in os.walk("/"):
    below[:] = () if directory == "/proc" else below
    try:
        os.close(os.open(directory + "/probe", os.O_CREAT | os.O_WRONLY))
        print("can write to", directory)
    except OSError:
        pass
"""


def main() -> int:
    """Exit code 0 if the image is good, or cannot be run on this machine."""
    parser = argparse.ArgumentParser(prog="python -m jobcommon.testutil.release.image_check", description=__doc__)
    parser.add_argument("image")
    image = parser.parse_args().image
    if reason := why_not():
        print(f"{image}: skipped: {reason}")
        return 0
    try:
        check(image)
    except ReleaseError as error:
        print(f"{image}: {error}", file=sys.stderr)
        return 1
    return 0


def check(image: str) -> None:
    """Print what was seen. Raises ReleaseError with what is wrong."""
    config = inspected(image)["OCIv1"]["config"]
    variables = dict(variable.split("=", 1) for variable in config["Env"])
    with mounted(image) as root:
        size = int(output_of(["du", "--summarize", "--block-size=1", root]).split()[0]) / 1e6
        print(f"{image}: {size:.0f} MB, {inspected(image)['FromImageDigest']}", flush=True)
        check_root(root, str(config.get("User")), config.get("Entrypoint"), variables)


def check_root(
    root: Path, stated_user: str, entry_point: object, variables: dict[str, str], system: tuple[Path, ...] = ()
) -> None:
    """Print what was seen of a root directory, with `system` mounted from this machine. Raises ReleaseError."""
    began = time.monotonic()
    pod = _pod()
    (container,), context = pod["containers"], pod["securityContext"]
    user, group = context["runAsUser"], context["runAsGroup"]
    _expect("its user", stated_user, f"{user}:{group}")
    _expect("its entry point", entry_point, container["command"])
    with tempfile.TemporaryDirectory(prefix="jobcommon-image-") as scratch:
        found = sorted(str(path.relative_to(root)) for name in LEFT_OUT for path in root.rglob(name))
        _expect("parts that have no place in it", found, [])
        sandbox = Sandbox(root, Path(scratch) / "serviceaccount", f"{user}:{group}", variables, system)
        _expect("jobcommon --version", sandbox.output("jobcommon", "--version"), f"jobcommon {version_of(ROOT)}")
        _expect("its rights", sandbox.output("python", "-c", PROBE), f"{user} {group} [] caps 0 no-new-privs 1")
        print(f"runs as {user}:{group} without capabilities; cannot write anywhere", flush=True)
        arguments = [argument.replace("$(POD_NAMESPACE)", OPERATORS) for argument in container["args"]]
        print(asyncio.run(lifecycle.run(sandbox, [*container["command"], *arguments], Path(scratch))))
    print(f"checked in {time.monotonic() - began:.0f} s", flush=True)


def inspected(image: str) -> dict[str, Any]:
    """What buildah knows of an image. Raises ReleaseError."""
    found: dict[str, Any] = json.loads(buildah("inspect", "--type", "image", image))
    return found


def _pod() -> dict[str, Any]:
    """The operators' pod, as the manifests have it."""
    objects = yaml.safe_load_all((RIGHTS / "operator.yaml").read_text(encoding="utf-8"))
    (pod,) = (found["spec"]["template"]["spec"] for found in objects if found["kind"] == "Deployment")
    return dict(pod)


def _expect(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise ReleaseError(f"{what}: {found}; expected {wanted}")


if __name__ == "__main__":
    sys.exit(main())
