"""buildah, in chroot isolation, which also works inside a container."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobcommon.testutil.processes import ROOT
from jobcommon.testutil.release.program import output_of


def why_not() -> str | None:
    """Why no image can be built here; None if one can."""
    missing = [name for name in ("buildah", "unshare", "setpriv") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not found; on Debian: apt-get install buildah mmdebstrap util-linux"
    return None if os.geteuid() == 0 else "it needs root, to mount the image read-only"


def buildah(*arguments: str) -> str:
    """What it prints. $BUILDAH_ISOLATION has priority over chroot isolation. Raises ReleaseError."""
    return output_of(["buildah", *arguments], ROOT, {"BUILDAH_ISOLATION": "chroot", **os.environ}).strip()


@contextmanager
def mounted(image: str) -> Iterator[Path]:
    """The root directory of a container of `image`, which is removed afterwards. Raises ReleaseError."""
    container = buildah("from", "--pull-never", image)
    try:
        yield Path(buildah("mount", container))
    finally:
        buildah("rm", container)
