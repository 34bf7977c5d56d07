"""Names of images. None is pulled here, but a kubelet tells which names no registry can have, and the digest of what ran."""

import re
from hashlib import sha256

# A registry with an optional port, a path in lower case, a tag and a digest.
_IMAGE = re.compile(
    r"(?:(?=[^/]*[.:A-Z]|localhost/)[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)*(?::\d+)?/)?"
    r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*"
    r"(?::\w[\w.-]{0,127})?(?:@[A-Za-z0-9+._-]+:[0-9a-fA-F]{32,})?",
    re.ASCII,
)


def fault(image: str) -> str:
    """The kubelet's message for a name that cannot be parsed, else ""."""
    return "" if _IMAGE.fullmatch(image) else f'couldn\'t parse image name "{image}": invalid reference format'


def image_id(image: str) -> str:
    """The repository and the digest, which is made from the image's name unless it has one; "" without an image."""
    named, _, digest = image.partition("@")
    repository, colon, tag = named.rpartition(":")
    if not colon or "/" in tag:
        repository = named
    return f"{repository}@{digest or 'sha256:' + sha256(named.encode()).hexdigest()}" if named else ""
