"""What the rules of a pod's parts need to know of the whole pod."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
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

    @cached_property
    def all_volumes(self) -> Mapping[str, Obj]:
        """By name, the invalid ones included."""
        return {one.get("name", ""): one for one in self.spec.get("volumes") or ()}

    @cached_property
    def claims(self) -> Sequence[str]:
        """The names of the resource claims."""
        return [one["name"] for one in self.spec.get("resourceClaims") or () if one.get("name")]
