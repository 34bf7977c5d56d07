"""Random request sequences: the same seed always gives the same case."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from localcluster.conformance.case import Case, Json, Kind, Ref, Seen, Step
from localcluster.conformance.content import changes, fresh, invalid, operations, statuses
from localcluster.conformance.kinds import CONFIG_MAPS, JOBS, NODE, PODS, SERVICES, WIDGETS
from localcluster.request import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH

NAMES = ("n1", "n2", "n3", "n4", "n5")
KINDS = (CONFIG_MAPS, PODS, SERVICES, WIDGETS, JOBS)
SHORTEST, LONGEST = 1, 50
SELECTORS = ("app=x", "app!=y", "app in (x,y)", "app notin (y)", "app", "!nope", "app=x,tier!=z", "tier=x")
_STRANGE_UID = "00000000-0000-4000-8000-000000000000"
_MEDIA = (MERGE_PATCH, MERGE_PATCH, JSON_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


def sequence(seed: int) -> Case:
    """The case of a seed: a list per kind, then requests on five names in two namespaces, then what every watcher has seen."""
    source = _Source(random.Random(seed))  # noqa: S311 - reproducibility is the point
    # Half of the sequences stay with one kind, so that long histories of one object occur.
    kinds = KINDS if source.rng.random() < 0.5 else (source.rng.choice(KINDS),)
    steps = [Step("GET", kind, space="", query={"limit": 5000}) for kind in kinds]
    steps += [source.step(source.rng.choice(kinds)) for _ in range(source.rng.randint(SHORTEST, LONGEST))]
    for kind in kinds:
        start = Ref(f"list/{kind.plural}/start", "metadata.resourceVersion")
        steps.append(Step("WATCH", kind, space="", query={"resourceVersion": start}))
        steps += [Step("GET", kind, space=space) for space in ("a", "b")]
    return Case(f"sequence {seed}", tuple(steps))


class _Source:
    """Draws steps."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._generated = 0
        self._draws: list[tuple[int, Callable[[Kind, str, str], Step]]] = [
            (24, self._create), (16, self._update), (22, self._patch), (5, self._get), (7, self._list), (10, self._delete),
            (2, self._delete_all), (8, self._status), (4, self._special), (5, self._watch),
        ]  # fmt: skip

    def step(self, kind: Kind) -> Step:
        """One request about `kind`."""
        draw = self.rng.choices([draw for _, draw in self._draws], [weight for weight, _ in self._draws])[0]
        # Few names are hit often.
        name = self.rng.choices(NAMES, (8, 4, 2, 1, 1))[0]
        return draw(kind, name, self.rng.choices("ab", (3, 1))[0])

    def _chance(self, share: float) -> bool:
        return self.rng.random() < share

    def _query(self) -> Json:
        """The options of a write."""
        query: Json = {"dryRun": "All"} if self._chance(0.08) else {}
        if self._chance(0.15):
            query["fieldManager"] = self.rng.choice(("m1", "m2", "m3"))
        if self._chance(0.1):
            query["fieldValidation"] = self.rng.choice(("Strict", "Warn", "Ignore"))
        return query

    def _create(self, kind: Kind, name: str, space: str) -> Step:
        body = fresh(self.rng, kind, name)
        if self._chance(0.12):
            body = invalid(self.rng, kind, body)
        meta = body["metadata"]
        if self._chance(0.05):
            meta["uid"] = _STRANGE_UID
        query = self._query()
        if self._chance(0.06):
            # Each in its own place among the names, whatever the server adds to it.
            self._generated += 1
            del meta["name"]
            meta["generateName"] = f"g{self._generated}-"
        if self._chance(0.03):
            meta["resourceVersion"] = "1"
        if self._chance(0.03):
            meta["namespace"] = "elsewhere"
        return Step("POST", kind, body=body, query=query, space=space)

    def _meta(self, key: str) -> Json:
        """What an update says of the version and identity of the object it was made from."""
        meta: Json = {}
        # Many clients know nothing of these, and an empty list ends them.
        draw = self.rng.random()
        if draw < 0.5:
            meta["managedFields"] = None
        elif draw < 0.53:
            meta["managedFields"] = []
        if self._chance(0.3):
            meta["resourceVersion"] = None
        elif self._chance(0.15):
            meta["resourceVersion"] = Ref(key, "metadata.resourceVersion", back=self.rng.randint(1, 3), otherwise="1")
        if self._chance(0.15):
            meta["uid"] = None
        elif self._chance(0.06):
            meta["uid"] = self.rng.choice((_STRANGE_UID, Ref(key, "metadata.uid", back=4, otherwise=_STRANGE_UID)))
        return meta

    def _update(self, kind: Kind, name: str, space: str) -> Step:
        key = f"{kind.plural}/{space}/{name}"
        change = changes(self.rng, kind)
        change["metadata"] = {**self._meta(key), **change.get("metadata", {})}
        body = Seen(key, change, back=self.rng.choice((0, 0, 0, 0, 1)), otherwise=fresh(self.rng, kind, name))
        return Step("PUT", kind, name, body, query=self._query(), space=space)

    def _patch(self, kind: Kind, name: str, space: str) -> Step:
        return self._patched(kind, name, space, "", changes(self.rng, kind))

    def _patched(self, kind: Kind, name: str, space: str, subresource: str, change: Json) -> Step:
        key = f"{kind.plural}/{space}/{name}"
        # An apply of the status of a missing Service would create one, an oddity that clients do not use.
        media = self.rng.choice(_MEDIA[:-1] if kind == SERVICES and subresource else _MEDIA)
        query = self._query()
        body: Any = change
        if media == JSON_PATCH:
            body = operations(self.rng, kind, change, Ref(key, "metadata.uid", otherwise=_STRANGE_UID))
        elif media == APPLY_PATCH:
            body = _applied(kind, name, change)
            query["fieldManager"] = self.rng.choice(("m1", "m2"))
            if self._chance(0.3):
                query["force"] = "true"
        elif self._chance(0.25):
            body = {**change, "metadata": {**change.get("metadata", {}), **self._precondition(key)}}
        return Step("PATCH", kind, name, body, media=media, query=query, subresource=subresource, space=space)

    def _precondition(self, key: str) -> Json:
        return self.rng.choice((
            {"resourceVersion": Ref(key, "metadata.resourceVersion", otherwise="1")},
            {"resourceVersion": Ref(key, "metadata.resourceVersion", back=1, otherwise="1")},
            {"uid": Ref(key, "metadata.uid", otherwise=_STRANGE_UID)},
            {"uid": _STRANGE_UID},
        ))  # fmt: skip

    def _get(self, kind: Kind, name: str, space: str) -> Step:
        return Step("GET", kind, name, space=space, subresource=self.rng.choice(("", "", "status")))

    def _list(self, kind: Kind, name: str, space: str) -> Step:
        query: Json = {}
        if self._chance(0.5):
            query["labelSelector"] = self.rng.choice(SELECTORS)
        if self._chance(0.3):
            fields = [f"metadata.name={name}", f"metadata.name!={name}"]
            if kind == PODS:
                fields += ["spec.nodeName=", f"spec.nodeName={NODE}", "status.phase=Running", "status.phase!=Running"]
            query["fieldSelector"] = self.rng.choice(fields)
        if self._chance(0.5):
            query["limit"] = self.rng.choice((1, 2, 3))
            if self._chance(0.5):
                query["continue"] = Ref(f"list/{kind.plural}", "metadata.continue")
        elif self._chance(0.3):
            query["resourceVersion"] = Ref(
                f"{kind.plural}/{space}/{name}", "metadata.resourceVersion", back=self.rng.randint(0, 4)
            )
            query["resourceVersionMatch"] = self.rng.choice(("Exact", "NotOlderThan"))
        return Step("GET", kind, query=query, space=self.rng.choice((space, space, "a")))

    def _delete(self, kind: Kind, name: str, space: str) -> Step:
        key = f"{kind.plural}/{space}/{name}"
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if self._chance(0.35):
            options["preconditions"] = self.rng.choice((
                {"uid": Ref(key, "metadata.uid", otherwise=_STRANGE_UID)},
                {"uid": Ref(key, "metadata.uid", back=5, otherwise=_STRANGE_UID)},
                {"resourceVersion": Ref(key, "metadata.resourceVersion", otherwise="1")},
                {"resourceVersion": Ref(key, "metadata.resourceVersion", back=1, otherwise="1")},
            ))  # fmt: skip
        if self._chance(0.3):
            options["gracePeriodSeconds"] = self.rng.choice((0, 0, 1, 5, 60))
        if self._chance(0.25):
            options["propagationPolicy"] = self.rng.choice(("Background", "Foreground", "Orphan"))
        if self._chance(0.08):
            options["dryRun"] = ["All"]
        return Step("DELETE", kind, name, options if len(options) > 2 or self._chance(0.5) else None, space=space)

    def _delete_all(self, kind: Kind, _name: str, space: str) -> Step:
        # Services have no delete of a collection before 1.23; every release has it for the others.
        query: Json = {"labelSelector": self.rng.choice(SELECTORS)} if self._chance(0.7) else {}
        if self._chance(0.2):
            query["propagationPolicy"] = self.rng.choice(("Background", "Foreground", "Orphan"))
        if self._chance(0.2):
            query["gracePeriodSeconds"] = self.rng.choice((0, 5))
        if self._chance(0.08):
            query["dryRun"] = "All"
        return Step("DELETE", kind, query=query, space=space)

    def _status(self, kind: Kind, name: str, space: str) -> Step:
        if kind == CONFIG_MAPS:
            return self._update(kind, name, space)
        key = f"{kind.plural}/{space}/{name}"
        change = statuses(self.rng, kind)
        # A PUT of the status of a missing Service would create one, an oddity that clients do not use.
        if kind == SERVICES or self._chance(0.5):
            return self._patched(kind, name, space, "status", change)
        body = Seen(key, {**change, "metadata": self._meta(key)}, otherwise=fresh(self.rng, kind, name))
        return Step("PUT", kind, name, body, query=self._query(), subresource="status", space=space)

    def _special(self, kind: Kind, name: str, space: str) -> Step:
        if kind == PODS:
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": NODE}}
            return Step("POST", kind, name, body, subresource="binding", space=space)
        if kind != WIDGETS:
            return self._patch(kind, name, space)
        number = self.rng.choice((0, 1, 2, 3, 9, 500, -1))
        if self._chance(0.3):
            return Step("GET", kind, name, subresource="scale", space=space)
        meta: Json = {"name": name}
        if self._chance(0.3):
            meta["resourceVersion"] = Ref(
                f"widgets/{space}/{name}", "metadata.resourceVersion", back=self.rng.randint(0, 1), otherwise="1"
            )
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": meta, "spec": {"replicas": number}}
        if self._chance(0.5):
            return Step("PUT", kind, name, scale, subresource="scale", space=space)
        return Step("PATCH", kind, name, {"spec": {"replicas": number}}, media=MERGE_PATCH, subresource="scale", space=space)

    def _watch(self, kind: Kind, name: str, space: str) -> Step:
        query: Json = {}
        draw = self.rng.random()
        if draw < 0.75:
            query["resourceVersion"] = self.rng.choice((
                Ref(f"list/{kind.plural}/start", "metadata.resourceVersion"),
                Ref(f"{kind.plural}/{space}/{name}", "metadata.resourceVersion", back=self.rng.randint(0, 4), otherwise="0"),
            ))  # fmt: skip
        elif draw < 0.85:
            query["resourceVersion"] = "0"
        if self._chance(0.5):
            query["labelSelector"] = self.rng.choice(SELECTORS)
        # Only selectors that let through what ends a watch.
        if kind == PODS and self._chance(0.3):
            query["fieldSelector"] = "spec.nodeName="
        return Step("WATCH", kind, query=query, space=self.rng.choice((space, "")))


def _applied(kind: Kind, name: str, change: Mapping[str, Any]) -> Json:
    """What a manager applies: the change without its removals, which apply cannot express."""
    meta = {key: value for key, value in (change.get("metadata") or {}).items() if value is not None}
    rest = {key: value for key, value in change.items() if key != "metadata"}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {**_kept(meta), "name": name}, **_kept(rest)}


def _kept(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {key: _kept(item) for key, item in value.items() if item is not None}
        return {key: item for key, item in kept.items() if item != {}}
    return value
