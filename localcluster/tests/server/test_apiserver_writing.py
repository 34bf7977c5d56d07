"""Creates, updates, patches and deletions beyond the conformance table."""

import base64
from typing import Any

import pytest

from localcluster.apiserver.users import User
from localcluster.request import JSON_PATCH, STRATEGIC_PATCH
from tests.server.api import CRS, Api, cr, crd, pod, service

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
SECRETS = "/api/v1/namespaces/default/secrets"
MAPS = "/api/v1/namespaces/default/configmaps"
SERVICES = "/api/v1/namespaces/default/services"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"


@pytest.fixture
def api() -> Api:
    api = Api()
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd())
    return api


def deployment(name: str, replicas: int = 1) -> Json:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod(name)["spec"]}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def test_pod_defaults(api: Api) -> None:
    obj = api.post(PODS, pod("a", container={"ports": [{"containerPort": 80}]})).body
    spec, container = obj["spec"], obj["spec"]["containers"][0]
    assert {key: spec[key] for key in ("restartPolicy", "terminationGracePeriodSeconds", "dnsPolicy", "schedulerName")} == {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
    }
    assert (spec["serviceAccountName"], spec["enableServiceLinks"], spec["priority"]) == ("default", True, 0)
    assert (container["imagePullPolicy"], container["ports"][0]["protocol"]) == ("Always", "TCP")
    assert obj["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert obj["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m"}}, "Guaranteed"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
    ],
)
def test_qos_class(api: Api, resources: Json, qos: str) -> None:
    assert api.post(PODS, pod("a", container={"resources": resources})).body["status"]["qosClass"] == qos


def test_priority_classes(api: Api) -> None:
    api.post("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 100})
    assert api.post(PODS, pod("a", spec={"priorityClassName": "high"})).body["spec"]["priority"] == 100
    refused = api.post(PODS, pod("b", spec={"priorityClassName": "none"}))
    assert (refused.code, "no PriorityClass with name none was found" in refused.message) == (403, True)


def test_generated_names(api: Api) -> None:
    names = {api.post(PODS, {**pod(""), "metadata": {"generateName": "job-"}}).body["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("job-") and len(name) == 9 for name in names)


def test_a_generated_name_avoids_taken_ones(api: Api) -> None:
    def generated() -> str:
        api.server.env.random.seed(7)
        answer = api.post(PODS, {**pod(""), "metadata": {"generateName": "job-"}})
        assert answer.code == 201
        return str(answer.body["metadata"]["name"])

    first = generated()
    assert generated() != first


def test_the_same_seed_gives_the_same_cluster() -> None:
    first, second = Api(), Api()
    for one in (first, second):
        one.post(PODS, {**pod(""), "metadata": {"generateName": "job-"}})
    assert first.get(PODS).body == second.get(PODS).body


def test_server_owned_metadata_is_not_taken_from_the_client(api: Api) -> None:
    forged = pod(
        "a", uid="mine", creationTimestamp="2000-01-01T00:00:00Z", deletionTimestamp="2000-01-01T00:00:00Z", generation=7
    )
    meta = api.post(PODS, forged).body["metadata"]
    assert meta["uid"] != "mine"
    assert meta["creationTimestamp"] == "2027-01-15T08:00:00Z"
    assert (meta["generation"], "deletionTimestamp" in meta) == (1, False)


def test_a_version_in_a_create_is_refused(api: Api) -> None:
    answer = api.post(PODS, pod("a", resourceVersion="1"))
    assert (answer.code, answer.message) == (500, "resourceVersion should not be set on objects to be created")


BAD_BODIES: dict[str, tuple[Any, int, str]] = {
    "not json": (b"{", 400, "couldn't parse it"),
    "a list": (b"[]", 400, "not a JSON object"),
    "another kind": ({**pod("a"), "kind": "Service"}, 400, "cannot be handled as a Pod"),
    "another version": ({**pod("a"), "apiVersion": "v2"}, 400, "does not match the expected API version (v1)"),
    "another namespace": (pod("a", namespace="other"), 400, "does not match the namespace sent on the request"),
    "a string for a list": (
        {"metadata": {"name": "a"}, "spec": {"containers": "x"}},
        400,
        "cannot unmarshal string into Go struct field",
    ),
    "a number for a string": (
        pod("a", labels={"x": 1}),
        400,
        "cannot unmarshal number into Go struct field metadata.labels.x of type string",
    ),
    "a time that is none": (
        {"metadata": {"name": "a"}, "spec": pod("a")["spec"], "status": {"startTime": "soon"}},
        400,
        'parsing time "soon" at status.startTime',
    ),
    "metadata as a list": ({"metadata": []}, 400, "metadata: it must be an object"),
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_bad_bodies(api: Api, name: str) -> None:
    body, code, message = BAD_BODIES[name]
    answer = api.send("POST", PODS, body)
    assert (answer.code, answer.reason) == (code, "BadRequest")
    assert message in answer.message


def test_yaml_bodies(api: Api) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1'}\n"
    assert api.send("POST", MAPS, text, content_type="application/yaml").body["data"] == {"x": "1"}
    assert api.send("POST", MAPS, text, content_type="text/plain").code == 415


@pytest.mark.parametrize(("path", "obj"), [(PODS, pod("a", spec={"colour": "red"})), (CRS, cr("a", spec={"colour": "red"}))])
def test_field_validation(api: Api, path: str, obj: Json) -> None:
    strict = api.post(path, obj, fieldValidation="Strict")
    assert (strict.code, 'strict decoding error: unknown field "spec.colour"' in strict.message) == (400, True)
    warned = api.post(path, obj)
    assert warned.headers["Warning"] == '299 - "unknown field \\"spec.colour\\""'
    assert "colour" not in warned.body["spec"]
    ignored = api.put(f"{path}/a", {**warned.body, "spec": {**warned.body["spec"], "colour": "red"}}, fieldValidation="Ignore")
    assert (ignored.code, "Warning" in ignored.headers) == (200, False)


def test_a_deprecated_version_warns(api: Api) -> None:
    answer = api.post(CRS.replace("v1", "v1beta1"), {**cr("a"), "apiVersion": "ex.com/v1beta1"})
    assert answer.headers["Warning"] == '299 - "ex.com/v1beta1 Foo is deprecated"'


def test_dry_run_stores_nothing(api: Api) -> None:
    before = api.server.storage.rv
    assert api.post(PODS, pod("a"), dryRun="All").code == 201
    assert api.get(f"{PODS}/a").code == 404
    assert api.server.storage.rv == before
    api.post(PODS, pod("a"))
    before = api.server.storage.rv
    assert api.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "1"}}}, dryRun="All").body["metadata"]["labels"] == {"x": "1"}
    assert api.delete(f"{PODS}/a", dryRun="All").code == 200
    assert api.delete(f"{PODS}/a", {"dryRun": ["All"]}).code == 200
    assert api.apply(f"{CRS}/a", cr("a"), dryRun="All").code == 201
    assert api.server.storage.rv == before
    assert api.post(PODS, pod("b"), dryRun="Some").code == 422


def test_an_update_that_changes_nothing_is_not_written(api: Api) -> None:
    obj = api.post(PODS, pod("a", labels={"x": "1"}))
    watch = api.watch(PODS)
    assert api.put(f"{PODS}/a", obj.body).rv == obj.rv
    assert api.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "1"}}}).rv == obj.rv
    assert api.patch(f"{PODS}/a", {"metadata": {"annotations": {}}}).rv == obj.rv
    assert watch.events() == []


def test_a_pods_spec_is_fixed(api: Api) -> None:
    api.post(PODS, pod("a"))
    refused = api.patch(f"{PODS}/a", {"spec": {"containers": [{"name": "c", "command": ["x"]}]}}, STRATEGIC_PATCH)
    assert (refused.code, refused.causes) == (422, ["spec"])
    image = api.patch(f"{PODS}/a", {"spec": {"containers": [{"name": "c", "image": "j"}]}}, STRATEGIC_PATCH)
    assert image.body["spec"]["containers"][0]["image"] == "j"


def test_the_patched_object_is_not_the_stored_one(api: Api) -> None:
    api.post(CRS, cr("a", labels={"x": "1"}))
    before = api.server.storage.table("foos.ex.com").get("default", "a")
    api.patch(f"{CRS}/a", [{"op": "replace", "path": "/metadata/labels/x", "value": "2"}], JSON_PATCH)
    api.patch(f"{CRS}/a", {"spec": {"unknown": 1, "replicas": 5}})
    assert before is not None
    assert before.obj["metadata"]["labels"] == {"x": "1"}
    assert before.obj["spec"] == {"replicas": 1}


def test_generation_counts_changes_of_the_spec(api: Api) -> None:
    api.post(CRS, cr("a"))
    assert api.patch(f"{CRS}/a", {"metadata": {"labels": {"x": "1"}}}).body["metadata"]["generation"] == 1
    assert api.patch(f"{CRS}/a", {"spec": {"replicas": 2}}).body["metadata"]["generation"] == 2
    assert api.patch(f"{CRS}/a/status", {"status": {"phase": "x"}}).body["metadata"]["generation"] == 2


def test_schema_defaults_and_pruning(api: Api) -> None:
    obj = api.post(CRS, cr("a", spec={"text": "t", "colour": "red"})).body
    assert obj["spec"] == {"text": "t", "replicas": 1}
    assert api.get(CRS, fieldSelector="spec.text=t").names == ["a"]


def test_scale_of_a_custom_object_and_of_a_deployment(api: Api) -> None:
    api.post(CRS, cr("a", spec={"replicas": 3}))
    api.patch(f"{CRS}/a/status", {"status": {"replicas": 2, "selector": "app=a"}})
    scale = api.get(f"{CRS}/a/scale").body
    assert (scale["kind"], scale["spec"], scale["status"]) == ("Scale", {"replicas": 3}, {"replicas": 2, "selector": "app=a"})
    assert api.patch(f"{CRS}/a/scale", {"spec": {"replicas": 5}}).body["spec"] == {"replicas": 5}
    assert api.get(f"{CRS}/a").body["spec"]["replicas"] == 5
    assert api.put(f"{CRS}/a/scale", {**scale, "spec": {"replicas": 1}}).code == 409
    assert api.patch(f"{CRS}/a/scale", {"spec": {"replicas": -1}}).code == 422
    api.post(DEPLOYMENTS, deployment("d"))
    assert api.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 4}}).body["status"]["selector"] == "app=d"


def test_secrets(api: Api) -> None:
    obj = api.post(SECRETS, {"metadata": {"name": "a"}, "stringData": {"x": "1"}}).body
    assert (obj["type"], base64.b64decode(obj["data"]["x"]), "stringData" in obj) == ("Opaque", b"1", False)
    bad = api.post(SECRETS, {"metadata": {"name": "b"}, "data": {"x": "not base64!"}})
    assert (bad.code, "illegal base64 data" in bad.message) == (400, True)
    assert "not base64!" not in bad.message
    assert api.patch(f"{SECRETS}/a", {"type": "other"}).causes == ["type"]


def test_immutable_config(api: Api) -> None:
    api.post(MAPS, {"metadata": {"name": "a"}, "data": {"x": "1"}, "immutable": True})
    assert api.patch(f"{MAPS}/a", {"data": {"x": "2"}}).causes == ["data"]
    assert api.patch(f"{MAPS}/a", {"immutable": False}).causes == ["immutable"]
    assert api.patch(f"{MAPS}/a", {"metadata": {"labels": {"y": "1"}}}).code == 200


def test_service_addresses(api: Api) -> None:
    spec = api.post(SERVICES, service("a")).body["spec"]
    assert spec["clusterIP"].startswith("10.")
    replaced = api.put(f"{SERVICES}/a", service("a"))
    assert replaced.body["spec"]["clusterIP"] == spec["clusterIP"]
    assert api.patch(f"{SERVICES}/a", {"spec": {"clusterIP": "10.0.0.9"}}).code == 422
    headless = api.post(SERVICES, {"metadata": {"name": "b"}, "spec": {"clusterIP": "None"}}).body["spec"]
    assert headless["clusterIP"] == "None"


def test_put_creates_only_what_may_be_created_so(api: Api) -> None:
    lease = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "x"}}
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    assert api.put(f"{leases}/a", lease).code == 201
    assert api.put(f"{PODS}/a", pod("a")).code == 404
    assert api.put(f"{CRS}/a", cr("a", resourceVersion="1")).code == 404


def test_the_name_in_the_body_is_the_one_in_the_path(api: Api) -> None:
    api.post(PODS, pod("a"))
    answer = api.put(f"{PODS}/a", pod("b"))
    assert (answer.code, answer.message) == (400, "the name of the object (b) does not match the name on the URL (a)")


def test_binding(api: Api) -> None:
    api.post(PODS, pod("a"))
    assert api.bind("a").code == 201
    obj = api.get(f"{PODS}/a").body
    assert obj["spec"]["nodeName"] == "n1"
    assert [(one["type"], one["status"]) for one in obj["status"]["conditions"]] == [("PodScheduled", "True")]
    again = api.bind("a", "n2")
    assert (again.code, "already assigned to node" in again.message) == (409, True)


def test_eviction_respects_budgets(api: Api) -> None:
    api.post(PODS, pod("a", labels={"app": "a"}))
    api.bind("a")
    api.patch(f"{PODS}/a/status", {"status": {"phase": "Running"}})
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    api.post(budgets, {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "a"}}, "minAvailable": 1}})
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    assert api.post(f"{PODS}/a/eviction", eviction).code == 429
    api.patch(f"{budgets}/b/status", {"status": {"disruptionsAllowed": 1}})
    assert api.post(f"{PODS}/a/eviction", eviction).code == 201
    assert "deletionTimestamp" in api.get(f"{PODS}/a").body["metadata"]


def test_ephemeral_containers_are_refused_with_a_reason(api: Api) -> None:
    api.post(PODS, pod("a"))
    answer = api.patch(f"{PODS}/a/ephemeralcontainers", {"spec": {"ephemeralContainers": []}}, STRATEGIC_PATCH)
    assert (answer.code, "local processes" in answer.message) == (422, True)


def test_delete_collection(api: Api) -> None:
    for name in "abc":
        api.post(PODS, pod(name, labels={"app": name}))
    answer = api.delete(PODS, labelSelector="app!=b")
    assert (answer.code, answer.names) == (200, ["a", "c"])
    assert api.get(PODS).names == ["b"]


@pytest.mark.parametrize(
    ("policy", "finalizers"), [("Foreground", ["foregroundDeletion"]), ("Orphan", ["orphan"]), ("Background", None)]
)
def test_propagation_policies(api: Api, policy: str, finalizers: list[str] | None) -> None:
    api.post(CRS, cr("a"))
    answer = api.delete(f"{CRS}/a", {"propagationPolicy": policy})
    assert answer.code == 200
    assert answer.body.get("metadata", {}).get("finalizers") == finalizers
    assert api.delete(f"{CRS}/a", {"propagationPolicy": "Sideways"}).code in (404, 422)


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/namespaces/default/nothing", 404),
        ("GET", "/apis/none/v1/things", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/nothing", 404),
        ("GET", f"{PODS}/a/nothing", 404),
        ("POST", "/api/v1/pods", 404),
        ("PUT", PODS, 405),
        ("POST", f"{PODS}/a", 405),
        ("GET", "/apis/authorization.k8s.io/v1/subjectaccessreviews", 405),
        ("DELETE", "/api/v1/namespaces", 405),
    ],
)
def test_paths_and_methods_that_are_not_served(api: Api, method: str, path: str, code: int) -> None:
    answer = api.send(method, path, {} if method in ("POST", "PUT") else None)
    assert (answer.code, answer.body["kind"]) == (code, "Status")


def test_system_namespaces_stay(api: Api) -> None:
    assert api.get("/api/v1/namespaces").names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert api.delete("/api/v1/namespaces/kube-system").code == 403


def test_quota_counts_requests(api: Api) -> None:
    api.post(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "1500m", "count/configmaps": "0"}}})
    assert api.post(PODS, pod("a", container={"resources": {"requests": {"cpu": "1"}}})).code == 201
    assert api.post(PODS, pod("b", container={"resources": {"requests": {"cpu": "1"}}})).code == 403
    assert api.post(MAPS, {"metadata": {"name": "m"}}).code == 403


def test_a_missing_service_account_is_refused(api: Api) -> None:
    answer = api.post(PODS, pod("a", spec={"serviceAccountName": "robot"}))
    assert (answer.code, 'serviceaccount "robot" not found' in answer.message) == (403, True)


def test_writes_of_others_do_not_count_as_ours(api: Api) -> None:
    user = User("jane")
    assert api.send("POST", PODS, pod("a"), user=user).code == 403


@pytest.mark.parametrize("changed", [{"scope": "Cluster"}, {"versions": []}])
def test_definitions_are_validated(api: Api, changed: Json) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.ex.com"
    assert api.patch(path, {"spec": changed}).code == 422


def test_a_definition_is_served_when_its_create_returns(api: Api) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.ex.com"
    status = api.get(path).body["status"]
    assert {one["type"]: one["status"] for one in status["conditions"]} == {"NamesAccepted": "True", "Established": "True"}
    assert status["storedVersions"] == ["v1"]
    api.post(CRS, cr("a"))
    spec = api.get(path).body["spec"]
    spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["extra"] = {"type": "string"}
    api.patch(path, {"spec": spec})
    assert api.patch(f"{CRS}/a", {"spec": {"extra": "x"}}).body["spec"]["extra"] == "x"
