"""What the seeds say of distributed experiments, beside the whole documents of test_golden."""

import json

import pytest

from tests.convert.documents import PLAIN, converted, env, job_of, main_container, pod_spec, resources


@pytest.mark.parametrize(
    ("framework", "kind", "role"),
    [("tensorflow", "TFJob", "Chief"), ("pytorch", "PyTorchJob", "Master"), ("mxnet", "MXJob", "Worker"),
     ("horovod", "Job", ""), ("scikit-learn", "Job", "")],
)  # fmt: skip
def test_single_task_is_the_master_or_a_batch_job(framework: str, kind: str, role: str) -> None:
    manifest, warnings = converted({**PLAIN, "framework": framework})
    assert manifest["kind"] == kind
    assert [w.partition(":")[0] for w in warnings] == (["framework"] if framework == "scikit-learn" else [])
    if role:
        found = job_of(manifest)
        assert (list(found.replica_specs), found.total_replicas) == ([role], 1)
        assert json.loads(env(found.replica_specs[role])["POLYAXON_TASK_INFO"]) == {"type": "master", "index": 0}


COUNTS, FEW = {"n_workers": 2, "n_ps": 1}, {"memory": {"limits": 9}}
SPELLINGS = {
    "a list a property": {"tensorflow": {**COUNTS, "worker_resources": [{"index": 1, **FEW}]}},
    "a list of tasks": {"tensorflow": {**COUNTS, "worker": [{"index": 1, "resources": FEW}, {"index": 0, "labels": {}}]}},
    "replicas": {"replicas": {**COUNTS, "worker": {"index": 1, "resources": {"limits": {"memory": 9}}}}},
    "mixed": {"replicas": {**COUNTS, "worker_resources": [{"index": 1, "limits": {"memory": 9}}]}},
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_generations_say_the_same(name: str) -> None:
    manifest, warnings = converted({**PLAIN, "framework": "tensorflow", "environment": SPELLINGS[name]})
    found = job_of(manifest)
    assert warnings == []
    assert {role: spec.replicas for role, spec in found.replica_specs.items()} == {"Chief": 1, "PS": 1, "Worker": 2}
    workers = [resources(found.replica_specs["Worker"], index) for index in range(2)]
    assert workers == [{}, {"limits": {"memory": "9Mi"}}]


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
