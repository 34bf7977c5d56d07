"""The files of a new package, and what is put into them."""

import importlib
import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from string import Template
from urllib.parse import urlsplit
from urllib.request import url2pathname

import jobcommon
from jobcommon.cli.errors import UserError
from jobcommon.cli.frameworks import referenced, usable
from jobcommon.cli.new.chart import chart_files, first_values, library_files, library_version, values_schema

_TEMPLATES = Path(__file__).parent / "template"
_SUFFIX = ".tmpl"
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,18}[a-z0-9])?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{1,28}")
_GROUP = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")


class _Text(Template):
    """Shells, Make and Helm have uses of their own for the usual delimiters."""

    delimiter = "%%"


@dataclass(frozen=True)
class Package:
    """A package to be made. Raises `UserError` for names that cannot be used."""

    name: str
    kind: str
    group: str

    @classmethod
    def named(cls, name: str, kind: str | None, group: str) -> "Package":
        """The package of a framework called `name`; the kind is its name with Job, unless given."""
        if _NAME.fullmatch(name) is None:
            raise UserError(f'NAME: "{name}" cannot be used; use lower-case letters, digits and hyphens, as in lightgbm')
        found = cls(name, kind or "".join(part.capitalize() for part in name.split("-")) + "Job", group)
        if _KIND.fullmatch(found.kind) is None:
            raise UserError(f'--kind: "{found.kind}" cannot be used; write something like LightGBMJob')
        if _GROUP.fullmatch(group) is None:
            raise UserError(f'--group: "{group}" cannot be used; write a domain, such as example.com')
        for one in usable():
            if one.name == name:
                raise UserError(f"NAME: {name} is the framework of {one.kind} already; choose another name")
            if (one.kind, one.group) == (found.kind, group):
                raise UserError(f"--kind: {found.kind} of {group} is the framework {one.name}'s already; choose another")
        return found

    @property
    def directory(self) -> str:
        """The name of its directory and distribution."""
        return f"{self.name}-operator"

    @property
    def module(self) -> str:
        """The name of its Python package."""
        return self.directory.replace("-", "_")

    @property
    def reference(self) -> str:
        """Where its framework is."""
        return f"{self.module}:FRAMEWORK"

    @property
    def words(self) -> Mapping[str, str]:
        """What the templates name."""
        first, *rest = self.name.split("-")
        return {
            "name": self.name,
            "kind": self.kind,
            "plural": f"{self.kind.lower()}s",
            "group": self.group,
            "package": self.module,
            "reference": self.reference,
            "replica_specs": first + "".join(part.capitalize() for part in rest) + "ReplicaSpecs",
            "version": jobcommon.__version__,
            "library": library_version(),
        }

    def files(self) -> dict[str, str]:
        """The files by path, but for those that follow from the framework."""
        words = self.words
        found = {
            path.relative_to(_TEMPLATES).as_posix().removesuffix(_SUFFIX).replace("PACKAGE", self.module): _Text(
                path.read_text(encoding="utf-8")
            ).substitute(words)
            for path in sorted(_TEMPLATES.rglob(f"*{_SUFFIX}"))
        }
        found |= {f"chart/charts/jobcommon-lib/{name}": text for name, text in library_files().items()}
        return {
            **found,
            "chart/values.yaml": first_values(self.directory),
            "chart/values.schema.json": values_schema(),
        }


def write(package: Package, directory: Path) -> None:
    """Make the package in `directory`, which is new or empty. Raises `UserError`."""
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise UserError(f"{directory}: exists already, and is not an empty directory")
        _write({directory / name: text for name, text in package.files().items()})
        _write(dict(_of_the_framework(package, directory)))
    except OSError as error:
        raise UserError(f"{error.filename or directory}: cannot be written: {error.strerror}") from None


def next_step(directory: Path) -> str:
    """What to type next. A jobcommon that was installed from a directory may be in no index of packages."""
    text = distribution("jobcommon").read_text("direct_url.json")
    url = urlsplit(json.loads(text)["url"]) if text else None
    here = f" JOBCOMMON={shlex.quote(url2pathname(url.path))}" if url is not None and url.scheme == "file" else ""
    return f"make -C {shlex.quote(str(directory))} test{here}"


def _write(files: Mapping[Path, str]) -> None:
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _of_the_framework(package: Package, directory: Path) -> Iterator[tuple[Path, str]]:
    """The framework itself says what is in its CRD and its rights, so the new package is loaded where it lies."""
    place, without_bytecode = str(directory.resolve()), sys.dont_write_bytecode
    sys.path.insert(0, place)
    sys.dont_write_bytecode = True
    try:
        importlib.invalidate_caches()
        yield from chart_files(directory / "chart", package.reference, referenced(package.reference)).items()
    finally:
        sys.dont_write_bytecode = without_bytecode
        sys.path.remove(place)
        for name in [name for name in sys.modules if name.partition(".")[0] == package.module]:
            del sys.modules[name]
