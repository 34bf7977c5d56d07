"""The Containerfile by its instructions, and its steps without a builder: this machine stands in for the base.

That takes a fraction of an image's time. What only a real base shows, it cannot show: whether the base has what is needed.
"""

import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from jobcommon.testutil.processes import ROOT
from jobcommon.testutil.release.program import ReleaseError, output_of

#: Runs a step of the build where /opt is a directory of ours, with what the machine has there below it.
_SCRIPT = """
opt=$1 base=$2 step=$3
for there in /opt/*; do
    [ ! -d "$there" ] || { mkdir -p "$opt/${there##*/}"; mount --bind "$there" "$opt/${there##*/}"; }
done
mount --rbind "$opt" /opt
python() { "$base" "$@"; }
eval "$step"
"""
#: Where a Linux system keeps its programs and libraries, and how it finds them.
_SYSTEM = ("bin", "etc", "lib", "lib64", "sbin", "usr")


@dataclass(frozen=True)
class Stage:
    """The instructions after a FROM, with their arguments."""

    instructions: tuple[tuple[str, str], ...]

    def arguments(self, name: str) -> list[str]:
        """Of each instruction of that name."""
        return [argument for instruction, argument in self.instructions if instruction == name]


def stages() -> list[Stage]:
    """Those of the Containerfile, each from its FROM on; what is before the first is not in any."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    found: list[list[tuple[str, str]]] = []
    for line in (line.strip() for line in text.splitlines()):
        name, _, argument = line.partition(" ")
        if name == "FROM":
            found.append([])
        if line and not line.startswith("#") and found:
            found[-1].append((name, argument))
    return [Stage(tuple(each)) for each in found]


def environment(stage: Stage) -> dict[str, str]:
    """The variables that it sets."""
    return dict(word.split("=", 1) for argument in stage.arguments("ENV") for word in shlex.split(argument))


def why_not() -> str | None:
    """Why the steps cannot be run here; None if they can."""
    if missing := [name for name in ("unshare", "setpriv") if shutil.which(name) is None]:
        return f"{', '.join(missing)} not found; on Debian: apt-get install util-linux"
    if os.geteuid() != 0:
        return "it needs root, to mount directories read-only"
    tried = "mount --bind /usr /usr && mount -o remount,bind,ro /usr"
    try:
        output_of(["unshare", "--mount", "--propagation", "private", "sh", "-c", tried])
    except ReleaseError:
        return "this machine does not let root mount directories; a container needs the capability SYS_ADMIN for it"
    return None


def build(directory: Path) -> tuple[Path, tuple[Path, ...]]:
    """Run the first stage; the last one's root directory in `directory`, and what is mounted there from this machine.

    Only what the first stage makes below /opt comes into the last one. Steps of the last one change the base and are not run.
    Raises ReleaseError.
    """
    first = stages()[0]
    sources, root = directory / "src", directory / "root"
    sources.mkdir()
    for argument in first.arguments("COPY"):
        *names, target = argument.split()
        for name in names:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, sources / target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, sources / target)
    (root / "opt").mkdir(parents=True)
    python = Path(sys.base_prefix, "bin", "python3").resolve()
    for step in first.arguments("RUN"):
        spaces = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", _SCRIPT, "step"]
        output_of([*spaces, root / "opt", python, step], sources)
    return root, _system(root)


def _system(root: Path) -> tuple[Path, ...]:
    """Places in `root` for the machine's own system and Python; links such as /bin are links there, too."""
    prefix = Path(sys.base_prefix).resolve()
    found = []
    for there in [*(Path("/", name) for name in _SYSTEM), *([] if prefix.is_relative_to("/usr") else [prefix])]:
        here = root / there.relative_to("/")
        if there.is_symlink():
            here.symlink_to(there.readlink())
        elif there.is_dir():
            here.mkdir(parents=True)
            found.append(there)
    return tuple(found)
