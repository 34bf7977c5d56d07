"""The one document of a polyaxonfile."""

from collections.abc import Mapping
from typing import Any

from jobcommon.cli.convert.finding import ConvertError, Finding
from jobcommon.cli.yaml_document import DocumentError, check_plain, documents, line_of


def parse(text: str) -> Mapping[str, Any]:
    """The one mapping that `text` holds. Raises ConvertError for anything else, or beyond `yaml_document.LIMITS`."""
    found: object = None
    try:
        for number, (node, body) in enumerate(documents(text, letters=True)):
            if number:
                raise DocumentError("a second document begins here: convert them one by one", line=line_of(node), column=1)
            found = body
    except DocumentError as error:
        raise _refused(error) from None
    return _mapping(found)


def checked(body: object) -> Mapping[str, Any]:
    """`body`, if it is a mapping of plain data within the limits. Raises ConvertError."""
    try:
        check_plain(body)
    except DocumentError as error:
        raise _refused(error) from None
    return _mapping(body)


def _mapping(body: object) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        what = "nothing" if body is None else f"a {type(body).__name__}"
        raise ConvertError((Finding("", f"a polyaxonfile is a mapping of names to values, not {what}"),))
    return body


def _refused(error: DocumentError) -> ConvertError:
    place = f"line {error.line}, column {error.column}" if error.line else error.path
    return ConvertError((Finding(place, error.message),))
