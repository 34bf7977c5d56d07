"""Names, uids, versions: creates and updates."""

from localcluster.conformance.case import Case, Expect, Kind, Seen, Space, Step
from localcluster.conformance.kinds import (
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    QUOTAS,
    SECRETS,
    SERVICES,
    WIDGETS,
    config_map,
    obj,
    pod,
    service,
    widget,
)  # fmt: skip
from localcluster.conformance.steps import (
    UID,
    UNKNOWN_UID,
    VERSION,
    create,
    delete,
    get,
    json_patch,
    listed,
    patch,
    put,
    ref,
    start,
    watch,
)  # fmt: skip

_MAKERS = ((PODS, pod), (SERVICES, service), (CONFIG_MAPS, config_map), (WIDGETS, widget))


def _stale(kind: Kind) -> tuple[Step, ...]:
    older = {"metadata": {"resourceVersion": ref(kind, "n", VERSION, 1), "labels": {"c": "d"}}}
    return (
        patch(kind, "n", {"metadata": {"labels": {"a": "b"}}}),
        put(kind, "n", Seen(f"{kind.plural}/a/n", back=1), 409, reason="Conflict"),
        patch(kind, "n", older, 409, reason="Conflict"),
    )


CASES = (
    *(
        Case(f"create of an existing name: {kind.plural}", (
            create(kind, make("n")),
            create(kind, make("n"), 409, reason="AlreadyExists", fields={"details.name": "n", "details.kind": kind.plural}),
        ))
        for kind, make in _MAKERS
    ),
    *(
        Case(f"create while the old object is terminating: {kind.plural}", (
            create(kind, make("n", finalizers=["example.com/hold"])), delete(kind, "n"),
            create(kind, make("n"), 409, reason="AlreadyExists", message="object is being deleted"),
        ))
        for kind, make in _MAKERS
    ),
    *(
        Case(f"update with a stale version: {kind.plural}", (create(kind, make("n")), *_stale(kind)))
        for kind, make in _MAKERS
    ),
    Case("update of a custom object without a version", (
        create(WIDGETS, widget("n")),
        put(WIDGETS, "n", widget("n", {"size": 2}), 422, reason="Invalid",
            causes=("FieldValueInvalid metadata.resourceVersion",)),
    )),
    *(
        Case(f"update with a wrong uid: {kind.plural}", (
            create(kind, make("n")),
            put(kind, "n", Seen(f"{kind.plural}/a/n", {"metadata": {"uid": UNKNOWN_UID}}), 409, reason="Conflict"),
            patch(kind, "n", {"metadata": {"uid": UNKNOWN_UID}}, 422, reason="Invalid",
                causes=("FieldValueInvalid metadata.uid",)),
        ))
        for kind, make in _MAKERS
    ),
    *(
        Case(f"an update that changes nothing is not written: {kind.plural}", (
            create(kind, make("n")), put(kind, "n", Seen(f"{kind.plural}/a/n"), fields={VERSION: ref(kind, "n", VERSION)}),
            patch(kind, "n", {}, fields={VERSION: ref(kind, "n", VERSION)}), watch(kind, ref(kind, "n", VERSION)),
        ))
        for kind, make in _MAKERS
    ),
    Case("a failed test in a JSON patch", (
        create(CONFIG_MAPS, config_map("n")),
        json_patch(CONFIG_MAPS, "n", [{"op": "test", "path": "/metadata/uid", "value": "x"}, {"op": "remove", "path": "/data"}],
            422, reason="Invalid"),
        json_patch(CONFIG_MAPS, "n", [{"op": "remove", "path": "/nothing"}], 422, reason="Invalid"),
        get(CONFIG_MAPS, "n", fields={"data.k": "v"}),
    )),
    Case("update of what is missing", (
        put(CONFIG_MAPS, "n", config_map("n"), 404, reason="NotFound"), patch(CONFIG_MAPS, "n", {}, 404, reason="NotFound"),
        put(WIDGETS, "n", widget("n"), 404, reason="NotFound"), get(PODS, "n", 404, reason="NotFound"),
    )),
    Case("resourceVersion on create", (create(CONFIG_MAPS, config_map("n", resourceVersion="1"), 500, reason=""),)),
    Case("what the creator says of server fields is dropped", (
        create(CONFIG_MAPS, config_map("n", uid=UNKNOWN_UID, creationTimestamp="2001-01-01T00:00:00Z"),
               fields={"metadata.generation": None}),
        create(WIDGETS, widget("n", generation=7) | {"status": {"phase": "New"}},
            fields={"metadata.generation": 1, "status": None}),
        create(PODS, pod("n") | {"status": {"phase": "Running"}}, fields={"status.phase": "Pending", "metadata.generation": 1}),
    )),
    Case("an ownerReference to a missing object is accepted", (
        create(CONFIG_MAPS, config_map("n", ownerReferences=[
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": UNKNOWN_UID, "controller": True}])),
        get(CONFIG_MAPS, "n", fields={"metadata.ownerReferences.0.name": "gone"}),
    )),
    Case("a namespace that is missing", (
        Step("POST", CONFIG_MAPS, body=config_map("n"), space="missing", expect=Expect(404, reason="NotFound")),
        Step("GET", CONFIG_MAPS, space="missing", expect=Expect(200, items=())),
    )),
    Case("a namespace that is terminating", (
        create(CONFIG_MAPS, config_map("n")),
        Step("DELETE", NAMESPACES, Space("a"), expect=Expect(200, fields={"status.phase": "Terminating"})),
        Step("POST", CONFIG_MAPS, body=config_map("m"), settle=True,
            expect=Expect(403, "Forbidden", causes=("NamespaceTerminating metadata.namespace",))),
        patch(CONFIG_MAPS, "n", {"data": {"k": "w"}}), delete(CONFIG_MAPS, "n"),
    )),
    Case("over quota", (
        create(QUOTAS, obj(QUOTAS, "q", {"spec": {"hard": {"count/secrets": "1"}}})),
        put(QUOTAS, "q", Seen("resourcequotas/a/q", {"metadata": {"resourceVersion": None}, "status": {
            "hard": {"count/secrets": "1"}, "used": {"count/secrets": "0"}}}), subresource="status"),
        Step("POST", SECRETS, body=obj(SECRETS, "filler"), settle=True, expect=Expect(201)),
        Step("POST", SECRETS, body=obj(SECRETS, "n"), settle=True, expect=Expect(403, "Forbidden", message="exceeded quota")),
    )),
    Case("dry run", (
        listed(CONFIG_MAPS), create(CONFIG_MAPS, config_map("n"), query={"dryRun": "All"}), get(CONFIG_MAPS, "n", 404),
        create(CONFIG_MAPS, config_map("n")),
        Step("PATCH", CONFIG_MAPS, "n", {"data": {"k": "w"}}, Expect(200, fields={"data.k": "w"}),
            "application/merge-patch+json", {"dryRun": "All"}),
        Step("DELETE", CONFIG_MAPS, "n", query={"dryRun": "All"}, expect=Expect(200)),
        get(CONFIG_MAPS, "n", fields={"data.k": "v"}), create(CONFIG_MAPS, config_map("m"), 422, query={"dryRun": "Some"}),
        watch(CONFIG_MAPS, start(CONFIG_MAPS), "ADDED n"),
    )),
    Case("the old incarnation's uid", (
        create(CONFIG_MAPS, config_map("n")), delete(CONFIG_MAPS, "n"), create(CONFIG_MAPS, config_map("n", {"k": "new"})),
        put(CONFIG_MAPS, "n", Seen("configmaps/a/n", {"data": {"k": "old"}}, back=1), 409, reason="Conflict"),
        delete(CONFIG_MAPS, "n", {"preconditions": {"uid": ref(CONFIG_MAPS, "n", UID, 1)}}, 409, reason="Conflict"),
        get(CONFIG_MAPS, "n", fields={"data.k": "new"}),
    )),
)  # fmt: skip
