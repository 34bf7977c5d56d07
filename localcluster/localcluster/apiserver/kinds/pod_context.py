"""What the rules of a pod's parts need to know of the whole pod."""

from dataclasses import dataclass, field
from typing import Any

Obj = dict[str, Any]


@dataclass
class PodContext:
    """A pod's spec with its defaults; `is_pod` is false for a template.

    `volumes` are those that mounts may name, which an invalid volume is not.
    """

    spec: Obj
    is_pod: bool = False
    volumes: dict[str, Obj] = field(default_factory=dict)
