"""What the seeds say of distributed experiments, and Polyaxon's own cases for the rule by property."""

import json

import pytest

from jobcommon.framework import Job
from tests.convert.documents import FRAMEWORKS, PLAIN, converted, env, job_of, main_container, pod_spec, resources, text_of

GPU = "nvidia.com/gpu"


def job(name: str) -> Job:
    manifest, _ = converted(text_of(name), fallback="exp")
    return job_of(manifest)


@pytest.mark.parametrize(
    ("name", "kind", "replicas"),
    [
        # Seed 000: "master, 2 ps, 4 workers" are seven tasks.
        pytest.param(
            "seed-000-tensorflow", "TFJob", {"Chief": 1, "PS": 2, "Worker": 4}, id="master besides n_workers and n_ps"
        ),
        pytest.param("seed-000-mxnet", "MXJob", {"Scheduler": 1, "Server": 1, "Worker": 2}, id="mxnet: master schedules"),
        pytest.param("seed-000-pytorch", "PyTorchJob", {"Master": 1, "Worker": 3}, id="pytorch: master and 3 workers"),
        pytest.param("seed-000-single", "PyTorchJob", {"Master": 1}, id="no parallelism: one task"),
        pytest.param("seed-004-horovod", "MPIJob", {"Launcher": 1, "Worker": 7}, id="horovod: master and 7 workers"),
        pytest.param("upstream-mpi", "MPIJob", {"Launcher": 1, "Worker": 8}, id="backend mpi"),
        pytest.param("flat-mpijob", "MPIJob", {"Launcher": 1, "Worker": 2}, id="v1alpha1"),
    ],
)
def test_tasks(name: str, kind: str, replicas: dict[str, int]) -> None:
    found = job(name)
    assert found.kind == kind
    assert {role: spec.replicas for role, spec in found.replica_specs.items()} == replicas


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


def test_world_size_counts_the_master() -> None:
    found = job("seed-000-pytorch")
    framework = FRAMEWORKS["PyTorchJob"]
    seen = [{v.name: v.value for v in framework.env(found, replica)} for replica in found.replicas]
    assert [(e["RANK"], e["WORLD_SIZE"]) for e in seen] == [("0", "4"), ("1", "4"), ("2", "4"), ("3", "4")]


def test_environment_resources_are_the_masters_alone() -> None:
    found = job("seed-000-mxnet")
    assert resources(found.replica_specs["Scheduler"]) == {"requests": {"cpu": "0.5"}, "limits": {"cpu": "1"}}
    assert resources(found.replica_specs["Worker"]) == resources(found.replica_specs["Server"]) == {}


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


def test_third_worker_differs_and_the_others_have_the_default() -> None:
    workers = job("seed-000-tensorflow").replica_specs["Worker"]
    assert [resources(workers, index)["limits"].get(GPU) for index in range(4)] == ["1", "1", None, "1"]
    assert ["NVIDIA_VISIBLE_DEVICES" in env(workers, index) for index in range(4)] == [False, False, True, False]
    servers = job("seed-000-tensorflow").replica_specs["PS"]
    assert [resources(servers, index)["limits"]["memory"] for index in range(2)] == ["512Mi", "256Mi"]


def test_horovod_master_is_rank_0_and_a_host() -> None:
    manifest, warnings = converted(text_of("seed-004-horovod"), fallback="exp")
    assert warnings == []
    spec = manifest["spec"]
    assert (spec["runLauncherAsWorker"], spec["slotsPerWorker"]) == (True, 1)
    found = job_of(manifest)
    launcher, workers = found.replica_specs["Launcher"], found.replica_specs["Worker"]
    assert main_container(launcher)["command"] == ["/bin/bash", "-c"]
    hosts = ",".join(["localhost:1", *(f"exp-worker-{index}.exp:1" for index in range(7))])
    start = f"mpirun --allow-run-as-root -np 8 -x LD_LIBRARY_PATH --tag-output --default-hostfile none -H {hosts}"
    line = f"{start} python train.py --lr 0.1"
    assert main_container(launcher)["args"] == [line]
    # They only listen for mpirun; the operator gives them sshd.
    assert not {"command", "args"} & main_container(workers).keys()
    assert [resources(workers, index)["limits"][GPU] for index in range(4)] == ["1", "1", "2", "1"]
    assert env(workers)["HOROVOD_TIMELINE"] == "/tmp/timeline.json"


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


def test_upstream_case_of_the_rule_by_property() -> None:
    found = job("upstream-distributed")
    chief, workers, servers = (found.replica_specs[role] for role in ("Chief", "Worker", "PS"))
    assert resources(chief) == {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    assert list(pod_spec(chief)["affinity"]) == ["nodeAffinity"]
    default = {"requests": {"cpu": "3", "memory": "256Mi"}, "limits": {"cpu": "3", "memory": "256Mi"}}
    memory_alone = {"requests": {"memory": "300Mi"}, "limits": {"memory": "300Mi"}}
    assert [resources(workers, index) for index in range(5)] == [default, default, default, memory_alone, default]
    keys = [[t["key"] for t in pod_spec(workers, index)["tolerations"]] for index in range(5)]
    assert keys == [["key"], ["key"], ["other"], ["key"], ["key"]]
    ordinary = {"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}
    assert [resources(servers, index) for index in range(9)] == [ordinary] * 9
    assert resources(servers, 9) == {"requests": {"memory": "512Mi"}, "limits": {"memory": "1024Mi"}}


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


def test_launcher_is_not_run_again_unless_asked() -> None:
    """An MPIJob's launcher is tried six times more by default."""
    assert job("seed-004-horovod").run_policy.backoff_limit == 0
    assert job("component-mpijob").run_policy.backoff_limit == 0
    assert job("flat-mpijob").run_policy.backoff_limit == 6


def test_task_knows_itself_and_the_cluster() -> None:
    found = job("seed-000-tensorflow")
    workers = found.replica_specs["Worker"]
    seen = env(workers, 2)
    label = seen["POLYAXON_TASK_INDEX"]["fieldRef"]["fieldPath"]
    assert label == "metadata.labels['training.kubeflow.org/replica-index']"
    assert seen["POLYAXON_TASK_INFO"].replace("$(POLYAXON_TASK_INDEX)", "2") == '{"type": "worker", "index": 2}'
    names = list(seen)
    assert names.index("POLYAXON_TASK_INDEX") < names.index("POLYAXON_TASK_INFO"), "what is referred to stands before"
    cluster = json.loads(seen["POLYAXON_CLUSTER"])
    assert {kind: len(hosts) for kind, hosts in cluster.items()} == {"master": 1, "worker": 4, "ps": 2}
    # The names are those the operator gives, without namespace: the manifest has none.
    for kind, replica_type in (("master", "Chief"), ("worker", "Worker"), ("ps", "PS")):
        pods = [found.pod_name(replica) for replica in found.replicas if replica.type == replica_type]
        assert cluster[kind] == [f"{pod}.{found.name}:2222" for pod in pods]
    assert "server" in json.loads(env(job("seed-000-mxnet").replica_specs["Worker"])["POLYAXON_CLUSTER"])


def test_params_reach_the_tasks_under_their_generations_name() -> None:
    old, new = job("seed-000-mxnet").replica_specs["Scheduler"], job("seed-004-horovod").replica_specs["Launcher"]
    assert json.loads(env(old)["POLYAXON_DECLARATIONS"]) == {"lr": 0.1, "store": "dist_sync"}
    assert "POLYAXON_PARAMS" not in env(old)
    assert json.loads(env(new)["POLYAXON_PARAMS"]) == {"lr": 0.1}


def test_a_dollar_in_a_param_is_not_a_reference() -> None:
    """Kubernetes puts variables in for $(NAME) and a $ for $$."""
    manifest, _ = converted({**PLAIN, "params": {"price": "$(POLYAXON_LOG_LEVEL)"}, "framework": "pytorch"})
    value = env(job_of(manifest).replica_specs["Master"])["POLYAXON_PARAMS"]
    assert value == '{"price": "$$(POLYAXON_LOG_LEVEL)"}'


def test_log_level_and_info() -> None:
    seen = env(job("everything-of-a-task").replica_specs["Master"])
    assert seen["POLYAXON_LOG_LEVEL"] == "DEBUG"
    assert json.loads(seen["POLYAXON_EXPERIMENT_INFO"]) == {"experiment_name": "all-of-it"}
    assert seen["MODE"] == "fast"


def test_image_pull_secrets_of_one_task_replace_the_default() -> None:
    """Lists of named entries are merged in an override, so the default's entry must not be in the common template."""
    workers = job("everything-of-a-task").replica_specs["Worker"]
    assert [pod_spec(workers, index)["imagePullSecrets"] for index in range(2)] == [[{"name": "registry"}], [{"name": "other"}]]
