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
    VERSION,
    create,
    delete,
    get,
    json_patch,
    patch,
    put,
    ref,
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
        Case(f"update with a stale version: {kind.plural}", (create(kind, make("n")), *_stale(kind)))
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
    Case("the old incarnation's uid", (
        create(CONFIG_MAPS, config_map("n")), delete(CONFIG_MAPS, "n"), create(CONFIG_MAPS, config_map("n", {"k": "new"})),
        put(CONFIG_MAPS, "n", Seen("configmaps/a/n", {"data": {"k": "old"}}, back=1), 409, reason="Conflict"),
        delete(CONFIG_MAPS, "n", {"preconditions": {"uid": ref(CONFIG_MAPS, "n", UID, 1)}}, 409, reason="Conflict"),
        get(CONFIG_MAPS, "n", fields={"data.k": "new"}),
    )),
)  # fmt: skip
