"""The fallback on machines without namespaces: one address for all pods, and rewritten paths.

Every pod has 127.0.0.1. Cluster names in the command line and in environment values become that address; Python programs
resolve them at run time as well, through a `sitecustomize` module put first on PYTHONPATH. Mount paths in the command line, the
environment and the working directory become the volumes' real ones.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from localcluster.kubelet.addresses import LOOPBACK

SITE = Path(__file__).parent / "fallback_site"
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME = re.compile(rf"(?<![\w.-]){_LABEL}(?:\.{_LABEL})+\.svc(?:\.cluster\.local)?(?![\w.-])")


def rewrite(
    argv: list[str], env: dict[str, str], cwd: str, mounts: Iterable[tuple[str, str, bool]], hostname: str
) -> tuple[list[str], dict[str, str], str]:
    """Command line, environment and working directory for a process that sees the host's own files and names."""
    sources = {target: source for source, target, _ in mounts}
    # The longest mount path first: one may lie inside another. All in one pass: what replaces one may begin with another.
    targets = "|".join(re.escape(target) for target in sorted(sources, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w./-])(?:{targets})(?![\w-])") if targets else None

    def place(text: str) -> str:
        if pattern is not None:
            text = pattern.sub(lambda match: sources[match[0]], text)
        return _NAME.sub(LOOPBACK, text)

    fresh = {name: place(value) for name, value in env.items()}
    fresh["JOBCOMMON_HOSTNAME"] = hostname
    fresh["PYTHONPATH"] = f"{SITE}:{fresh['PYTHONPATH']}" if fresh.get("PYTHONPATH") else str(SITE)
    return [place(word) for word in argv], fresh, place(cwd)
