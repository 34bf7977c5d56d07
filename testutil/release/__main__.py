"""``python -m jobcommon.testutil.release``: everything that a release consists of, but for the image."""

import argparse
import shutil
import sys
from pathlib import Path

from jobcommon.testutil.processes import COMMAND, ROOT
from jobcommon.testutil.release import charts, checksums, consistency, packages
from jobcommon.testutil.release.program import ReleaseError, output_of

SBOM = "sbom.cdx.json"


def main() -> int:
    """Exit code 0 if the release is complete."""
    parser = argparse.ArgumentParser(prog="python -m jobcommon.testutil.release", description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help=f"a directory with nothing in it but {SBOM}")
    parser.add_argument("--snapshot", action="store_true", help="with what is not committed yet")
    parser.add_argument("--check", action="store_true", help="only whether versions, changelog and working tree fit together")
    options = parser.parse_args()
    try:
        if found := consistency.faults(ROOT, snapshot=options.snapshot):
            raise ReleaseError("\n".join(found))
        if not options.check:
            release(options.output)
    except ReleaseError as error:
        print(f"make release: {error}", file=sys.stderr)
        return 1
    return 0


def release(output: Path) -> None:
    """Add to the SBOM in `output` everything else. Raises ReleaseError."""
    if not (output / SBOM).exists():
        raise ReleaseError(f"{output / SBOM} is missing; make sbom writes it, and make release begins with it")
    if others := sorted(path.name for path in output.iterdir() if path.name != SBOM):
        raise ReleaseError(f"{output} holds other files, which would be released as well: {', '.join(others)}; remove them")
    version = consistency.version_of(ROOT)
    moment = int(output_of(["git", "log", "-1", "--format=%ct"], ROOT))
    for distribution in (ROOT, ROOT / consistency.LOCALCLUSTER):
        packages.build(distribution, output, moment)
    charts.package(ROOT / "charts", output, moment)
    (output / "jobcommon-crds.yaml").write_text(output_of([*COMMAND, "crds"], ROOT), encoding="utf-8")
    kubectl = shutil.which("kubectl") or str(Path(sys.executable).parent / "kubectl")
    manifest = output_of([kubectl, "kustomize", ROOT / "charts" / "kustomize" / "base"])
    (output / "jobcommon-install.yaml").write_text(manifest, encoding="utf-8")
    (output / f"CHANGELOG-{version}.md").write_text(consistency.changes(ROOT), encoding="utf-8")
    checksums.write(output)
    for path in sorted(output.iterdir()):
        print(f"{path.stat().st_size:>9,}  {path.name}")


if __name__ == "__main__":
    sys.exit(main())
