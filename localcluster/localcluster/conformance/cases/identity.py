"""Names, uids, versions: creates and updates."""

from localcluster.apiserver.rest.patch import merge
from localcluster.conformance.case import VERSION, Expect, Json, Kind, Step, Steps, at, case, same
from localcluster.conformance.kinds import CONFIG_MAPS, NAMESPACES, QUOTAS, SECRETS, config_map, each, obj


@each("create of an existing name")
def _(kind: Kind, body: Json) -> Steps:
    yield kind.create(body)
    yield kind.create(body, 409, reason="AlreadyExists", fields={"details.name": "n", "details.kind": kind.plural})


@each("update with a stale version")
def _(kind: Kind, body: Json) -> Steps:
    old = yield kind.create(body)
    yield kind.patch("n", {"metadata": {"labels": {"a": "b"}}})
    yield kind.put("n", old, 409, reason="Conflict")
    older = {"metadata": {"resourceVersion": at(old, VERSION), "labels": {"c": "d"}}}
    yield kind.patch("n", older, 409, reason="Conflict")


@each("an update that changes nothing is not written")
def _(kind: Kind, body: Json) -> Steps:
    made = yield kind.create(body)
    yield kind.put("n", made, fields=same(made))
    yield kind.patch("n", {}, fields=same(made))
    yield kind.watch(made)


@case("a namespace that is terminating")
def _() -> Steps:
    yield CONFIG_MAPS.create(config_map("n"))
    yield NAMESPACES.delete("", fields={"status.phase": "Terminating"})
    refused = Expect(403, "Forbidden", causes=("NamespaceTerminating metadata.namespace",))
    yield Step("POST", CONFIG_MAPS, body=config_map("m"), expect=refused, settle=True)
    yield CONFIG_MAPS.patch("n", {"data": {"k": "w"}})
    yield CONFIG_MAPS.delete("n")


@case("over quota")
def _() -> Steps:
    hard = {"hard": {"count/secrets": "1"}}
    made = yield QUOTAS.create(obj(QUOTAS, "q", {"spec": hard}))
    counted = {"metadata": {"resourceVersion": None}, "status": {**hard, "used": {"count/secrets": "0"}}}
    yield QUOTAS.put("q", merge(made, counted), subresource="status")
    yield Step("POST", SECRETS, body=obj(SECRETS, "filler"), expect=Expect(201), settle=True)
    yield Step("POST", SECRETS, body=obj(SECRETS, "n"), expect=Expect(403, "Forbidden", "exceeded quota"), settle=True)
