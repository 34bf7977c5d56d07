"""What is done instead where the machine offers no namespaces: one address for all, and paths rewritten.

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
    # The longest mount path first: one may lie inside another.
    places = sorted(((target, source) for source, target, _ in mounts), key=lambda pair: -len(pair[0]))
    patterns = [(re.compile(rf"(?<![\w./-]){re.escape(target)}(?![\w-])"), source) for target, source in places]

    def place(text: str) -> str:
        for pattern, source in patterns:
            text, count = pattern.subn(source.replace("\\", r"\\"), text)
            if count:
                break
        return _NAME.sub(LOOPBACK, text)

    fresh = {name: place(value) for name, value in env.items()}
    fresh["JOBCOMMON_HOSTNAME"] = hostname
    fresh["PYTHONPATH"] = f"{SITE}:{fresh['PYTHONPATH']}" if fresh.get("PYTHONPATH") else str(SITE)
    return [place(word) for word in argv], fresh, place(cwd)
