"""The command as a user meets it: exit codes, error texts, help."""

import json
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from typer.main import get_command

from jobcommon.cli import pod_state, watch
from jobcommon.cli.main import app
from jobcommon.cli.manifests import Manifest, load
from jobcommon.cli.operate import searched_domain
from jobcommon.cli.options import duration_option
from jobcommon.cli.wanted import Wanted
from tests.cli.commands import JOBCOMMON, PATIENCE, ROOT, answered, jobcommon
from tests.cli.train_cluster import shell_job

JOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: quick
spec:
  pytorchReplicaSpecs:
    Worker:
      restartPolicy: Never
      template:
        spec:
          containers:
            - {{name: pytorch, image: any, command: [sh, -c, "echo before the end; exit {code}"]}}
"""
VALID = JOB.format(code=0)
READER = """
apiVersion: v1
kind: ConfigMap
metadata: {name: words, namespace: team}
data: {word: hello from a file}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: reader, namespace: team}
spec:
  pytorchReplicaSpecs: {Worker: {template: {spec: {volumes: [{name: words, configMap: {name: words}}], containers: [
    {name: pytorch, image: any, command: [cat, /config/word], volumeMounts: [{name: words, mountPath: /config}]}]}}}}
"""


ON_ELSEWHERE = VALID.replace("spec:\n  pytorch", "spec:\n  runPolicy: {managedBy: kueue.x-k8s.io/multikueue}\n  pytorch")
WORKER = "spec.pytorchReplicaSpecs[Worker]"
BAD = [
    ("", ["job.yaml: no object in it", "apiVersion, kind and metadata.name"]),
    ("a: [1\n", ["job.yaml:2:1: not valid YAML"]),
    ("a:\n\tb: 1\n", ["job.yaml:2:1: not valid YAML", "indent with blanks, not with tabs"]),
    ("just text", ["job.yaml:1: not an object but a str"]),
    ("a: 1\nb: 2\na: 3\n", ['job.yaml:3:1: not valid YAML: field "a" is given twice']),
    ("kind: PyTorchJob", ["job.yaml:1: apiVersion: Required value", "kubeflow.org/v1"]),
    ("apiVersion: v1", ["job.yaml:1: kind: Required value"]),
    ("apiVersion: v1\nkind: ConfigMap", ["job.yaml:1: ConfigMap: metadata.name: Required value"]),
    ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}", ["job.yaml: contains no job", "PyTorchJob"]),
    ("apiVersion: xgboostjob.kubeflow.org/v1\nkind: XGBoostJob\nmetadata: {name: a}\nspec: {}",
     ['job.yaml:1: XGBoostJob a: apiVersion "xgboostjob.kubeflow.org/v1"', "write kubeflow.org/v1\n"]),
    ("version: 1\nkind: experiment\nbuild: {image: any}\nrun: {cmd: ls}",
     ["job.yaml:1: Job job: a Job of batch/v1 runs on a cluster only", "framework: pytorch"]),
    (VALID.replace("PyTorchJob", "PytorchJob"), ['job.yaml:2: PytorchJob quick: kind: "PytorchJob" is not a kind supported']),
    (VALID.replace("Worker:", "Helper:"),
     ["job.yaml:8: PyTorchJob quick: spec.pytorchReplicaSpecs[Helper]: Unsupported value: use one of Master, Worker"]),
    (VALID.replace("pytorchReplicaSpecs", "pytorchReplicaSpec"),
     ['spec.pytorchReplicaSpec: unknown field; did you mean "pytorchReplicaSpecs"?']),
    (VALID.replace("restartPolicy: Never", "restartPolicy: Sometimes\n      replicas: -1"),
     [f"{WORKER}.restartPolicy: Unsupported value: use one of 'Always'", f"{WORKER}.replicas:"]),
    (f"{VALID}---{VALID}", ["PyTorchJob quick: is given twice, first in ", "job.yaml:2; leave one out"]),
    (ON_ELSEWHERE, ['spec.runPolicy.managedBy: "kueue.x-k8s.io/multikueue" runs this job, not the operator here']),
]  # fmt: skip


@pytest.mark.parametrize(("manifest", "messages"), BAD, ids=[row[1][0] for row in BAD])
def test_bad_input_is_refused_with_file_and_field(manifest: str, messages: Sequence[str], tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(manifest)
    for command in ("run",) if manifest == ON_ELSEWHERE else ("run", "plan"):
        done = answered(command, "-f", str(tmp_path / "job.yaml"))
        assert (done.returncode, done.stdout) == (2, "")
        assert all(line.startswith("error: ") for line in done.stderr.splitlines())
        assert [message for message in messages if message not in done.stderr] == [], done.stderr


def test_the_same_name_in_another_namespace_is_another_job() -> None:
    body = yaml.safe_load(VALID)
    elsewhere = {**body, "metadata": {**body["metadata"], "namespace": "other"}}
    wanted = Wanted.of([Manifest("a.yaml", 1, body), Manifest("a.yaml", 20, elsewhere)], "default")
    assert [job.key for job in wanted.followed] == [("PyTorchJob", "default", "quick"), ("PyTorchJob", "other", "quick")]


def test_a_generated_name_is_a_new_one_for_a_run_alone(tmp_path: Path) -> None:
    (file := tmp_path / "job.yaml").write_text(VALID.replace("name: quick", "generateName: quick-"))
    assert {load([str(file)])[0].name for _ in range(2)} == {"quick-xxxxx"}
    assert len({load([str(file)], fresh=True)[0].name for _ in range(2)} - {"quick-xxxxx"}) == 2


def test_without_the_extra_there_is_no_traceback(tmp_path: Path) -> None:
    # A module of that name before the real one says what Python says when there is none.
    (tmp_path / "jsonschema_rs.py").write_text("raise ModuleNotFoundError(\"No module named 'x'\", name='jsonschema_rs')\n")
    done = jobcommon("run", "-f", "examples/run-policy/restart.yaml", env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: the embedded cluster needs: pip install 'jobcommon[local]'\n"


def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*JOBCOMMON, "crds"], stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (1, "error: standard output or a file of the cluster: No space left on device\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("run -f /no/such/file.yaml", "/no/such/file.yaml: no such file or directory"),
        ("run -f http://h/job.yaml", "directory; pipe an address: curl -fsSL http://h/job.yaml | ..., with - in its place"),
        ("plan -f docs", "no file in this directory ends in .yaml"),
        ("up --framework caffe", "--framework caffe: there is no such framework here; use one of"),
        ("operator --kubeconfig /no/such/kubeconfig", "/no/such/kubeconfig: no such file; --kubeconfig must name"),
        ("operator --progress-port 0", "--progress-tls is needed with --progress-port: the directory"),
        ("operator --framework mine:", "--framework mine:: write a module and a name in it, as in my_package:FRAMEWORK"),
        ("operator --namespace ''", '--namespace : write lower-case letters, digits and "-"'),
        ("plan -f job.yaml -n a.b", '--namespace a.b: write lower-case letters, digits and "-"'),
        ("plan -f ''", "--filename: the name is empty; give a file, a directory, or - for standard input"),
        ("plan -f docs/dashboard-job.png", "docs/dashboard-job.png: is not UTF-8 text; give a YAML or JSON file"),
        ("convert docs", "docs: cannot be read: Is a directory"),
        ("crds --output README.md", "--output README.md: cannot be written: File exists"),
        ("run cli/up.py --resources cpu=lots -o yaml", "--resources cpu=lots: write a resource and an amount"),
        ("plan -f examples/run-policy -o json", "--output: 'json' is not one of 'text', 'yaml'"),
        ("doctor -o yaml", "--output: 'yaml' is not one of 'text', 'json'"),
        ("logs x --since '5 s'", "--since 5 s: write seconds or a duration of at least 1s, such as 90, 90s, 5m or 1h30m"),
        ("wait x --timeout nan", "--timeout nan: write seconds or a duration of at least 0.1s"),
        ("run cli/up.py --workers two", "--workers: must be a valid integer\nerror: see "),
        ("run cli/up.py --workers 0", "--workers: must be greater than or equal to 1\n"),
        ("logs", "JOB: Required value\nerror: see "),
        ("logs x --tail", "option '--tail' requires an argument\n"),
        ("run --nosuch", "no such option: --nosuch"),
        ("nosuch", "no such command 'nosuch'\nerror: see "),
    ],
)
def test_bad_arguments_are_refused_with_the_fix(arguments: str, message: str) -> None:
    done = answered(*shlex.split(arguments))
    assert done.returncode == 2
    assert message in done.stderr
    assert all(line.startswith("error: ") for line in done.stderr.splitlines()), done.stderr


@pytest.mark.parametrize("columns", [40, 120])
@pytest.mark.parametrize("command", get_command(app).commands)  # type: ignore[attr-defined]
def test_help_teaches_by_example(command: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    done = answered(command, "--help")
    assert done.returncode == 0
    # An example stays on its line, however narrow the terminal is.
    assert re.search(rf"^ +(.*\| )?(jobcommon|kubectl train) {command}( [^\[].*)?$", done.stdout, flags=re.MULTILINE)
    assert re.search(r"^  -.*<[a-z]+>", done.stdout, flags=re.MULTILINE) is None


NO_NODE = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector"
BOARD = """---
apiVersion: batch/v1
kind: Job
metadata: {name: board}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: any}]}}}
"""
#: By what the manifest is: the options, the exit code, and what is printed.
RUNS: dict[str, tuple[str, str, int, list[str]]] = {
    "succeeds, and what else there is is applied": (f"{READER}{BOARD}", "", 0, [
        r"^\S+ namespace/team created$", r"job/board creates no pods here: no controller for Job$",
        r"^reader-worker-0 \| hello from a file$", r"^pytorchjob/reader  Succeeded$",
    ]),
    "one of two fails": (f"{JOB.format(code=3)}---\n{READER}", "", 1, [
        r"^pytorchjob/quick  Failed  ProgramFailed\nWorker-0[^(]*: .*code 3", r"^pytorchjob/reader  Succeeded$",
        r"^  the last lines of Worker-0:\n  \| before the end$",
    ]),
    "takes too long": (VALID.replace("echo before the end; exit 0", "exec sleep 600"), "--timeout 2", 1, [
        r"not finished after 2 s \(--timeout\): stopping$",
    ]),
    "is stuck": (VALID.replace("          containers:", "          nodeSelector: {disk: fast}\n          containers:"),
        "--stuck-after 5", 3, [
        r"pytorchjob/quick has been stuck for 5 s \(--stuck-after\): stopping$", r"^ended after \d+:\d\d$",
        rf"^Worker-0: cannot be scheduled: {re.escape(NO_NODE)}; no node has the label disk=fast",
    ]),
}  # fmt: skip


@pytest.mark.cluster
@pytest.mark.parametrize("what", RUNS)
def test_a_job_is_run_to_its_end_or_a_limit(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest, options, code, printed = RUNS[what]
    # For a job that may be stuck time passes once it is seen why.
    causes: list[str] = []
    monkeypatch.setattr(watch, "why", lambda view: causes.append(pod_state.why(view)) or causes[-1])
    monkeypatch.setattr(watch, "time", SimpleNamespace(monotonic=lambda: 100.0 * any(causes)))
    (tmp_path / "job.yaml").write_text(manifest)
    done = answered("run", "-f", str(tmp_path), *options.split())
    assert (done.returncode, done.stderr) == (code, ""), done.stdout
    assert [line for line in printed if not re.search(line, done.stdout, re.MULTILINE)] == [], done.stdout
    assert "\x1b" not in done.stdout, "a pipe gets plain lines"


@pytest.mark.cluster
def test_run_lets_a_worker_end_that_still_saves(tmp_path: Path) -> None:
    """The master ends first, which is the job's success; the command stops its cluster once the worker has ended, too."""
    master = shell_job(f"until [ -e {tmp_path}/works ]; do sleep 0.05; done; touch {tmp_path}/over")
    specs = master["spec"]["pytorchReplicaSpecs"]
    specs["Master"] = specs["Worker"]
    worker = f"touch {tmp_path}/works; until [ -e {tmp_path}/over ]; do sleep 0.05; done; sleep 3; echo has saved"
    specs["Worker"] = shell_job(worker)["spec"]["pytorchReplicaSpecs"]["Worker"]
    (tmp_path / "job.json").write_text(json.dumps(master))
    done = answered("run", "-f", str(tmp_path / "job.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "demo-worker-0 | has saved" in done.stdout


def test_plan_prints_the_decision_and_the_objects() -> None:
    assert answered("plan", "-f", "-", stdin=VALID).stdout.splitlines()[:4] == [
        "# PyTorchJob default/quick", "reason: job is active", "action: create services/quick",
        "action: create pods/quick-worker-0",
    ]  # fmt: skip
    documents = answered("plan", "-f", "-", "-o", "yaml", stdin=VALID).stdout.split("---\n")[1:]
    assert [re.findall("^kind: .*", one, re.MULTILINE) for one in documents] == [["kind: Service"], ["kind: Pod"]]


def test_plan_names_what_an_api_server_refuses_in_the_pods(tmp_path: Path) -> None:
    manifest = yaml.safe_load(VALID)
    worker = manifest["spec"]["pytorchReplicaSpecs"]["Worker"]
    worker["replicas"] = 2
    template = worker["template"]["spec"]
    template["containers"][0] |= {"resources": {"requests": {"nvidia.com/gpu": 1}}, "livenessProbe": {"periodSeconds": 5}}
    template["tolerations"] = [{"key": "gpu", "operator": "Exist"}]
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(manifest))
    ended = answered("plan", "-f", str(path))
    assert ended.returncode == 2
    for error in (
        "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
        "spec.containers[0].livenessProbe: Required value: must specify a handler type",
        'spec.tolerations[0].operator: Unsupported value: "Exist": supported values: "Equal", "Exists"',
    ):
        assert ended.stderr.count(f"an API server refuses pod quick-worker-0: {error}\n") == 1


def test_plan_of_a_job_that_has_begun_shows_an_error_of_its_spec_and_what_goes_on() -> None:
    manifest = yaml.safe_load(VALID)
    manifest["spec"].setdefault("runPolicy", {})["backoffLimit"] = -1
    refused = answered("plan", "-f", "-", stdin=yaml.safe_dump(manifest))
    assert (refused.returncode, refused.stdout) == (2, "")
    manifest["status"] = {"startTime": "2023-11-14T22:13:20Z"}
    done = answered("plan", "-f", "-", stdin=yaml.safe_dump(manifest))
    assert done.returncode == 0, done.stderr
    assert "error: <stdin>:19: PyTorchJob quick: spec.runPolicy.backoffLimit: must be at least 0\n" in done.stdout
    assert "action: create pods/quick-worker-0" in done.stdout


def test_crds_are_printed_and_written(tmp_path: Path) -> None:
    printed = answered("crds", "--framework", "pytorch")
    assert printed.returncode == 0, printed.stderr
    assert [crd["metadata"]["name"] for crd in yaml.safe_load_all(printed.stdout)] == ["pytorchjobs.kubeflow.org"]
    written = answered("crds", "--framework", "pytorch", "--output", str(tmp_path / "crds"))
    assert written.stdout.split() == [str(tmp_path / "crds/kubeflow.org_pytorchjobs.yaml")]
    assert (tmp_path / "crds/kubeflow.org_pytorchjobs.yaml").read_text() == printed.stdout.removeprefix("---\n")


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("search jobs.svc.corp.local svc.corp.local corp.local eu.example\nnameserver 10.96.0.10\n", "corp.local"),
        ("nameserver 10.96.0.10\nsearch\tjobs.svc.cluster.local. svc.cluster.local. cluster.local.\n", "cluster.local"),
        ("search svc.example.com\n# search a.svc b.svc b\n", ""),
    ],
)
def test_the_operator_s_pod_knows_the_cluster_s_domain(text: str, domain: str, tmp_path: Path) -> None:
    (file := tmp_path / "resolv.conf").write_text(text)
    assert (searched_domain(file), searched_domain(tmp_path / "none")) == (domain, "")


def test_a_duration_is_what_kubectl_takes() -> None:
    kubectls = {"90": 90, "0.5": 0.5, "5m": 300, "1h30m": 5400, "1.5h": 5400, "2m3s": 123, "1500ms": 1.5}
    assert {given: duration_option("--since", "").parser(given) for given in kubectls} == kubectls
