"""What a conversion has to say about a document: errors, which end it, and warnings, which go with its result."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about one field. `path` is written as in ``environment.replicas.worker[0].index``."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConvertError(Exception):
    """The document cannot be converted; `findings` say why, and what to change, in the order of the document."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__("\n".join(str(finding) for finding in findings))
        self.findings = findings


@dataclass(slots=True)
class Notes:
    """Collects findings while a document is read, so that a user sees all errors at once."""

    errors: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)

    def error(self, path: str, message: str) -> None:
        """Something that must be changed."""
        self.errors.append(Finding(path, message))

    def warn(self, path: str, message: str) -> None:
        """Something that the result does not honour, or honours differently."""
        self.warnings.append(Finding(path, message))

    def check(self) -> None:
        """Raises ConvertError when there are errors."""
        if self.errors:
            raise ConvertError(tuple(dict.fromkeys(self.errors)))
