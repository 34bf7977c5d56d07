"""SHA256SUMS, as ``sha256sum --check`` reads it."""

import hashlib
from pathlib import Path

NAME = "SHA256SUMS"


def write(directory: Path) -> None:
    """Write the checksums of all files of a directory into it."""
    files = sorted(path for path in directory.iterdir() if path.name != NAME)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (directory / NAME).write_text("".join(lines), encoding="utf-8")
