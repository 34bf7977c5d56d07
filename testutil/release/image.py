"""``python -m jobcommon.testutil.release.image``: build the operators' image with buildah, and check it (``make image``)."""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from jobcommon.testutil.processes import ROOT
from jobcommon.testutil.release import containerfile, image_check
from jobcommon.testutil.release.buildah import buildah, why_not
from jobcommon.testutil.release.consistency import version_of
from jobcommon.testutil.release.program import ReleaseError, output_of

BASE = "localhost/jobcommon-base"
PACKAGES = ("python3", "python3-venv", "python-is-python3")
#: Of the packages' documentation and translations, the licences alone are kept.
LEFT_OUT = (
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/locale/*",
)


def main() -> int:
    """Exit code 0 if the image is built and passes, or if it cannot be built on this machine."""
    parser = argparse.ArgumentParser(prog="python -m jobcommon.testutil.release.image", description=__doc__)
    parser.add_argument(
        "--base", metavar="IMAGE", help="with Python, by its digest; without it, one is made of Debian packages"
    )
    parser.add_argument("--suite", default="bookworm", help="the Debian release of the packages (default: %(default)s)")
    parser.add_argument("--mirror", default="http://deb.debian.org/debian", help="where they come from (default: %(default)s)")
    parser.add_argument("--tag", default=f"jobcommon:{version_of(ROOT)}", help="the image's name (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="no image: its steps and its check on this machine's own Python")
    parser.add_argument("options", nargs="*", metavar="OPTION", help="after --: options of `buildah build`, such as --volume")
    options = parser.parse_args()
    if options.quick:
        return quick()
    reason = why_not()
    if reason is None and not options.base and shutil.which("mmdebstrap") is None:
        reason = "no base is given, and there is no mmdebstrap to make one; on Debian: apt-get install mmdebstrap"
    if reason:
        print(f"make image: skipped: {reason}")
        return 0
    try:
        moment = output_of(["git", "log", "-1", "--format=%ct"], ROOT).strip()
        base = options.base or make_base(options.suite, options.mirror, moment)
        build(options.tag, base, moment, options.options)
        image_check.check(options.tag)
    except ReleaseError as error:
        print(f"make image: {error}", file=sys.stderr)
        return 1
    return 0


def quick() -> int:
    """The steps of the Containerfile without a builder, and the check of what they make; exit codes as above."""
    if reason := containerfile.why_not():
        print(f"make image: skipped: {reason}")
        return 0
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="jobcommon-image-") as scratch:
            root, system = containerfile.build(Path(scratch))
            print(f"the Containerfile's first stage: {time.monotonic() - began:.0f} s", flush=True)
            last = containerfile.stages()[-1]
            (user,), (entry_point,) = last.arguments("USER"), last.arguments("ENTRYPOINT")
            image_check.check_root(root, user, json.loads(entry_point), containerfile.environment(last), system)
    except ReleaseError as error:
        print(f"make image: {error}", file=sys.stderr)
        return 1
    return 0


def make_base(suite: str, mirror: str, moment: str) -> str:
    """An image of Debian packages; its name with its digest. Raises ReleaseError."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="jobcommon-image-") as scratch:
        archive = f"{scratch}/root.tar"
        excluded = [f"--dpkgopt={option}" for option in LEFT_OUT]
        argv = ["mmdebstrap", "--variant=essential", f"--include={','.join(PACKAGES)}", *excluded, suite, archive, mirror]
        output_of(argv, env={**os.environ, "SOURCE_DATE_EPOCH": moment})
        container = buildah("from", "scratch")
        try:
            buildah("add", container, archive, "/")
            buildah("commit", "--timestamp", moment, container, BASE)
        finally:
            buildah("rm", container)
    base = f"{BASE}@{image_check.inspected(BASE)['FromImageDigest']}"
    print(
        f"base: Debian {suite}, made in {time.monotonic() - began:.0f} s; to build on it again: make image BASE={base}",
        flush=True,
    )
    return base


def build(tag: str, base: str, moment: str, options: Sequence[str]) -> None:
    """Build the Containerfile. Raises ReleaseError."""
    began = time.monotonic()
    pinned = ["--build-arg", f"BASE={base}", "--timestamp", moment]
    buildah("build", *pinned, "--file", "Containerfile", "--tag", tag, *options, ".")
    print(f"{tag}: built in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
