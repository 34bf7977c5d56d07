"""What the seeds say of distributed experiments, beside the whole documents of test_golden."""

import json

import pytest

from tests.convert.documents import PLAIN, converted, env, job_of, main_container, pod_spec, resources


@pytest.mark.parametrize(
    ("framework", "kind", "role"),
    [("tensorflow", "TFJob", "Chief"), ("pytorch", "PyTorchJob", "Master"), ("mxnet", "MXJob", "Worker")],
)
def test_single_task_is_the_master(framework: str, kind: str, role: str) -> None:
    manifest, _ = converted({**PLAIN, "framework": framework})
    found = job_of(manifest)
    assert (found.kind, list(found.replica_specs), found.total_replicas) == (kind, [role], 1)
    assert json.loads(env(found.replica_specs[role])["POLYAXON_TASK_INFO"]) == {"type": "master", "index": 0}


@pytest.mark.parametrize("framework", [None, "horovod", "scikit-learn"])
def test_single_task_of_no_kind_is_a_batch_job(framework: str | None) -> None:
    manifest, warnings = converted({**PLAIN, **({"framework": framework} if framework else {})})
    assert (manifest["apiVersion"], manifest["kind"]) == ("batch/v1", "Job")
    assert manifest["spec"]["backoffLimit"] == 0
    assert manifest["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert [w.partition(":")[0] for w in warnings] == (["framework"] if framework == "scikit-learn" else [])


def test_all_tasks_get_the_secrets_of_the_environment() -> None:
    """Polyaxon gave every task of an experiment the secrets, config maps and identity of its environment."""
    wide = {
        "service_account": "trainer",
        "image_pull_secrets": ["registry"],
        "secret_refs": ["aws"],
        "config_map_refs": ["settings"],
        "env_vars": [["A", "b"]],
    }
    tasks = {"n_workers": 2, "worker": [{"index": 1, "secret_refs": ["own"]}]}
    manifest, _ = converted({**PLAIN, "framework": "pytorch", "environment": {**wide, "labels": {"x": "y"}, "replicas": tasks}})
    workers = job_of(manifest).replica_specs["Worker"]
    secrets = [[e["secretRef"]["name"] for e in main_container(workers, i)["envFrom"] if "secretRef" in e] for i in range(2)]
    assert secrets == [["aws"], ["own"]]
    assert [e["configMapRef"]["name"] for e in main_container(workers)["envFrom"] if "configMapRef" in e] == ["settings"]
    pod = pod_spec(workers)
    assert (pod["serviceAccountName"], pod["imagePullSecrets"]) == ("trainer", [{"name": "registry"}])
    assert env(workers)["A"] == "b"
    assert "metadata" not in workers.template


@pytest.mark.parametrize(("gpus", "slots", "processes"), [(None, 1, 4), (0, 1, 4), (1, 1, 4), (4, 4, 16)])
def test_horovod_has_a_process_for_each_gpu(gpus: int | None, slots: int, processes: int) -> None:
    """Polyaxon crashed for a master without a gpu entry."""
    given = {} if gpus is None else {"resources": {"gpu": {"requests": gpus, "limits": gpus}}}
    manifest, _ = converted({**PLAIN, "framework": "horovod", "environment": {**given, "replicas": {"n_workers": 3}}})
    assert manifest["spec"]["slotsPerWorker"] == slots
    line = manifest["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["args"][0]
    assert f"-np {processes} " in line
    assert ("-x LD_LIBRARY_PATH" in line) == bool(gpus)


@pytest.mark.parametrize(
    "head", [{"backend": "mpi", "framework": "tensorflow"}, {"framework": "mpi"}, {"backend": "mpi"}], ids=str
)
def test_mpi_operator_has_no_master(head: dict[str, str]) -> None:
    worker = {"resources": {"gpu": {"requests": 4, "limits": 4}}}
    document = {**PLAIN, **head, "run": {"cmd": "mpirun python run.py"}}
    manifest, _ = converted({**document, "environment": {"replicas": {"n_workers": 8, "default_worker": worker}}})
    found = job_of(manifest)
    launcher = main_container(found.replica_specs["Launcher"])
    assert (launcher["args"], launcher.get("resources")) == (["mpirun python run.py"], None)
    assert "runLauncherAsWorker" not in manifest["spec"]
    assert manifest["spec"]["slotsPerWorker"] == 4
    assert list(json.loads(env(found.replica_specs["Worker"])["POLYAXON_CLUSTER"])) == ["worker"]


def test_without_a_default_only_the_listed_task_has_the_property() -> None:
    tasks = {"n_workers": 3, "worker": [{"index": 1, "node_selector": {"disk": "ssd"}}]}
    manifest, _ = converted({**PLAIN, "framework": "pytorch", "environment": {"replicas": tasks}})
    workers = job_of(manifest).replica_specs["Worker"]
    assert [pod_spec(workers, index).get("nodeSelector") for index in range(3)] == [None, {"disk": "ssd"}, None]


def test_an_entry_that_says_nothing_leaves_the_default() -> None:
    tasks = {"n_workers": 2, "default_worker": {"labels": {"a": "b"}}, "worker": [{"index": 1, "labels": {}}]}
    manifest, _ = converted({**PLAIN, "framework": "pytorch", "environment": {"replicas": tasks}})
    assert "overrides" not in manifest["spec"]["pytorchReplicaSpecs"]["Worker"]


SPELLINGS = {
    "January 2018": {"environment": {"n_workers": 2, "n_ps": 1}},
    "a list a property": {
        "environment": {"tensorflow": {"n_workers": 2, "n_ps": 1, "worker_resources": [{"index": 1, "memory": {"limits": 9}}]}}
    },
    "a list of tasks": {
        "environment": {
            "tensorflow": {"n_workers": 2, "n_ps": 1, "worker": [{"index": 1, "resources": {"memory": {"limits": 9}}}]}
        }
    },
    "replicas": {
        "framework": "tensorflow",
        "environment": {
            "replicas": {"n_workers": 2, "n_ps": 1, "worker": {"index": 1, "resources": {"limits": {"memory": 9}}}}
        },
    },
    "mixed": {
        "framework": "tensorflow",
        "environment": {"replicas": {"n_workers": 2, "n_ps": 1, "worker_resources": [{"index": 1, "limits": {"memory": 9}}]}},
    },
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_generations_say_the_same(name: str) -> None:
    manifest, warnings = converted({**PLAIN, **SPELLINGS[name]})
    found = job_of(manifest)
    assert warnings == []
    assert {role: spec.replicas for role, spec in found.replica_specs.items()} == {"Chief": 1, "PS": 1, "Worker": 2}
    if name != "January 2018":
        assert resources(found.replica_specs["Worker"], 1) == {"limits": {"memory": "9Mi"}}
    assert resources(found.replica_specs["Worker"], 0) == {}


@pytest.mark.parametrize(
    ("restarts", "default", "policies", "limit"),
    [
        (None, None, {"Master": "Never", "Worker": "Never"}, None),
        (0, None, {"Master": "Never", "Worker": "Never"}, None),
        (3, None, {"Master": "OnFailure", "Worker": "OnFailure"}, 3),
        (None, 2, {"Master": "Never", "Worker": "OnFailure"}, 2),
        (1, 5, {"Master": "OnFailure", "Worker": "OnFailure"}, 5),
    ],
)
def test_restarts(restarts: int | None, default: int | None, policies: dict[str, str], limit: int | None) -> None:
    environment = {
        **({} if restarts is None else {"max_restarts": restarts}),
        "replicas": {"n_workers": 1, "default_worker": {} if default is None else {"max_restarts": default}},
    }
    manifest, warnings = converted({**PLAIN, "framework": "pytorch", "environment": environment})
    found = job_of(manifest)
    assert {role: spec.restart_policy for role, spec in found.replica_specs.items()} == policies
    assert found.run_policy.backoff_limit == limit
    assert [w for w in warnings if "whole job" in w] == ([] if None in (restarts, default) else warnings)
    assert bool(warnings) == (restarts == 1)


def test_a_dollar_in_a_param_is_not_a_reference() -> None:
    """Kubernetes puts variables in for $(NAME) and a $ for $$."""
    manifest, _ = converted({**PLAIN, "params": {"price": "$(POLYAXON_LOG_LEVEL)"}, "framework": "pytorch"})
    value = env(job_of(manifest).replica_specs["Master"])["POLYAXON_PARAMS"]
    assert value == '{"price": "$$(POLYAXON_LOG_LEVEL)"}'
