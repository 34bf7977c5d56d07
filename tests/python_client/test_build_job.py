"""Building manifests from commands and functions, and the text of progress: pure."""

import contextlib
import io
import json
from typing import Any

import pytest

from jobcommon.operators.pytorch import PYTORCH
from jobcommon.sdk.build import build_job, framework_of, program
from jobcommon.sdk.progress import described
from jobcommon.spec import read_job

OUTSIDE = 3


def train(word: str, times: int = 1) -> None:
    import os

    def again() -> str:
        return " ".join([word] * times)

    print(again(), "$(HOME)", os.sep)


def decorated(function: Any) -> Any:
    return function


@decorated
def with_decorator() -> None:
    """Its decorator stays here."""


async def asynchronous() -> None:
    """It would return a coroutine."""


def uses_nothing() -> None:
    """Can be sent."""


def uses_outside() -> int:
    return OUTSIDE


def replicas(manifest: dict[str, Any]) -> dict[str, tuple[int, list[str]]]:
    (specs,) = (value for key, value in manifest["spec"].items() if key.endswith("ReplicaSpecs"))
    containers = {kind: spec["template"]["spec"]["containers"][0] for kind, spec in specs.items()}
    return {kind: (spec["replicas"], containers[kind].get("command", [])) for kind, spec in specs.items()}


@pytest.mark.parametrize(
    ("kind", "count", "expected"),
    [
        ("PyTorchJob", 1, {"Master": (1, ["x"])}),
        ("pytorch", 3, {"Master": (1, ["x"]), "Worker": (2, ["x"])}),
        ("TFJob", {"PS": 1, "Worker": 2}, {"PS": (1, ["x"]), "Worker": (2, ["x"])}),
        ("tfjobs", 2, {"Worker": (2, ["x"])}),
        ("MPIJob", 2, {"Launcher": (1, ["x"]), "Worker": (2, [])}),
        ("mxnet", 2, {"Scheduler": (1, ["x"]), "Server": (1, ["x"]), "Worker": (2, ["x"])}),
    ],
)
def test_the_replicas_of_a_kind(kind: str, count: Any, expected: dict[str, tuple[int, list[str]]]) -> None:
    assert replicas(build_job("j", image="i", command=["x"], kind=kind, replicas=count)) == expected


@pytest.mark.parametrize(
    ("changes", "single"),
    [
        ({}, {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": "$(RANK)"}),
        ({"env": {"LOCAL_RANK": "3"}, "resources": {"nvidia.com/gpu": 1, "cpu": "16"}}, {"LOCAL_RANK": "3"}),
        ({"resources": {"nvidia.com/gpu": 2}}, {}),
        ({"kind": "JAXJob"}, {}),
        ({"replicas": {"Worker": 2}}, {}),
        ({"function": None, "command": ["x"]}, {}),
    ],
)
def test_a_function_that_is_one_process_finds_what_torchrun_sets(changes: dict[str, Any], single: dict[str, str]) -> None:
    built = build_job("j", **{"image": "i", "function": uses_nothing, **changes})
    (specs,) = (value for key, value in built["spec"].items() if key.endswith("ReplicaSpecs"))
    (container,) = next(iter(specs.values()))["template"]["spec"]["containers"]
    env = {one["name"]: one["value"] for one in container.get("env", ())}
    assert {name: env[name] for name in single} == single
    assert bool(env) == bool(single)


def test_everything_else_of_a_manifest() -> None:
    built = build_job(
        "j", image="i", command=["x"], resources={"nvidia.com/gpu": 1}, env={"A": "b"}, namespace="n",
        run_policy={"backoffLimit": 2}, pod={"nodeSelector": {"disk": "fast"}},
    )  # fmt: skip
    assert built["metadata"] == {"name": "j", "namespace": "n"}
    assert built["spec"]["runPolicy"] == {"backoffLimit": 2, "restartScope": "Job"}
    assert built["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"] == {
        "containers": [
            {
                "name": "pytorch", "image": "i", "command": ["x"],
                "env": [{"name": "A", "value": "b"}], "resources": {"limits": {"nvidia.com/gpu": "1"}},
            }
        ],
        "nodeSelector": {"disk": "fast"},
    }  # fmt: skip


def test_torchrun_is_restarted_after_any_failure_but_not_for_ever() -> None:
    for given, limit in (({}, 3), ({"backoffLimit": 7}, 7)):
        built = build_job("j", image="i", command=["torchrun", "x.py"], replicas=2, run_policy=given)
        assert built["spec"]["runPolicy"] == {"backoffLimit": limit, "restartScope": "Job"}
        assert {spec["restartPolicy"] for spec in built["spec"]["pytorchReplicaSpecs"].values()} == {"OnFailure"}
        assert read_job(PYTORCH, built).warnings == ()


def test_a_function_that_reports_its_progress_can_and_by_mpirun() -> None:
    def reports(n: int) -> None:
        from jobcommon import report_progress

        report_progress(n, 2)

    built = build_job("j", image="i", function=reports, arguments={"n": 1}, kind="MPIJob", replicas=3)
    assert built["spec"]["runPolicy"] == {"restartScope": "Job", "reportProgress": True}
    assert replicas(built)["Launcher"][1][:7] == ["mpirun", "-x", "PATH", "-n", "3", "python", "-c"]


def test_the_program_calls_the_function() -> None:
    text = program(train, {"word": "it's", "times": 2})
    # Kubernetes makes one $ of two.
    assert "$$(HOME)" in text
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text.replace("$$", "$"), "job", "exec"), {"__name__": "__main__"})
    assert out.getvalue() == "it's it's $(HOME) /\n"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"command": "python train.py -n 'a b'"}, r"one string; give a list, as in \['python', 'train.py', '-n', 'a b'\]"),
        ({"function": uses_outside}, "function uses_outside: it uses OUTSIDE from outside"),
        ({"function": with_decorator}, "its decorators cannot be sent"),
        ({"function": asynchronous}, "only a plain function"),
        ({"function": lambda: None}, "only a plain function"),
        ({"function": train}, "arguments: train: missing a required argument: 'word'"),
        ({"function": train, "arguments": {"word": object()}}, "they are sent as JSON"),
        ({"function": train, "command": ["x"]}, "command: a function is given, too"),
        ({"arguments": {"a": 1}}, "arguments: they are for a function"),
        ({"kind": "Nonsense"}, 'kind "Nonsense": this kind of job is not installed; use one of .*MPIJob, .*PyTorchJob'),
        ({"replicas": 0}, "replicas: 0 is too few"),
        ({"replicas": {"Master": 2}}, r"spec\.pytorchReplicaSpecs\[Master\]"),
        ({"run_policy": {"backoffLimit": -1}}, r"spec\.runPolicy\.backoffLimit"),
        ({"run_policy": {"backofflimit": 3}}, r'spec\.runPolicy\.backofflimit: unknown field; did you mean "backoffLimit"\?'),
        ({"pod": {"nodeselector": {"a": "b"}}}, r'\.nodeselector: unknown field; did you mean "nodeSelector"\?'),
        ({"resources": {"gpu": 1}}, r"resources: Kubernetes has no resource gpu; use nvidia\.com/gpu"),
    ],
)
def test_invalid_arguments_of_build_job_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_job("j", image="i", **given)


@pytest.mark.parametrize(
    ("condition", "message", "counts", "status", "expected"),
    [
        ("", "", {}, {}, "submitted: Master 0/1, Worker 0/2"),
        ("Created", "it waits: \n no", {"Master": {"active": 1}}, {}, "Created: Master 1/1, Worker 0/2; it waits: no"),
        ("Running", "m", {"Worker": {"active": 1, "succeeded": 1}}, {"restarts": 2},
         "Running: Master 0/1, Worker 2/2; 2 restarts"),
        ("Running", "m", {"Worker": {"active": 1}}, {"attemptReplicas": {"Master": 1, "Worker": 1}},
         "Running: Master 0/1, Worker 1/1 of 2"),
    ],
)  # fmt: skip
def test_progress(condition: str, message: str, counts: dict[str, Any], status: dict[str, Any], expected: str) -> None:
    conditions = [{"type": condition, "status": "True", "message": message}] if condition else []
    job = build_job("j", image="i", command=["x"], replicas=3)
    job |= {"status": {"conditions": conditions, "replicaStatuses": counts, **status}}
    assert described(read_job(framework_of("PyTorchJob"), json.loads(json.dumps(job)))) == expected
