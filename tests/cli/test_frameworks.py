"""Frameworks are found by entry points; their own options, definitions and rights."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from jobcommon.api.gang import VOLCANO
from jobcommon.cli import frameworks, plan, rbac
from jobcommon.cli.definitions import as_yaml
from jobcommon.cli.errors import UserError
from jobcommon.cli.framework_options import Chosen, configured, with_own_options
from jobcommon.cli.main import app
from jobcommon.cli.manifests import Manifest
from jobcommon.cli.wanted import Wanted
from jobcommon.framework import CelRule, EnvVar, Framework, Job, Replica
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mpi.job import mpi_options
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.spec import read_job
from jobcommon.testutil.builders import job_manifest
from jobcommon.testutil.frameworks import TEST_JOB

SAME_KIND = replace(PYTORCH, name="theirs")
MISTYPED: Framework = replace(TEST_JOB, replica_types=("Worker",))  # type: ignore[arg-type]
MODULE = "jobcommon.testutil.frameworks"


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """The entry points there are, for the test to fill."""
    found: list[EntryPoint] = []
    monkeypatch.setattr(frameworks, "entry_points", lambda group: [entry for entry in found if entry.group == group])
    frameworks.loaded.cache_clear()
    yield found
    frameworks.loaded.cache_clear()


def entry(name: str, value: str) -> EntryPoint:
    """An entry of our group."""
    return EntryPoint(name, value, frameworks.GROUP)


def test_a_third_party_s_framework_stands_beside_ours(entries: list[EntryPoint]) -> None:
    entries += [
        entry("pytorch", "jobcommon.operators.pytorch:PYTORCH"),
        entry("mine", "jobcommon.testutil.frameworks:TEST_JOB"),
    ]
    assert frameworks.chosen(()) == (TEST_JOB, PYTORCH)
    assert frameworks.chosen(["mine", "mine"]) == (TEST_JOB,)
    assert frameworks.of_manifest({"apiVersion": "kubeflow.org/v1", "kind": "TestJob"}) is TEST_JOB
    assert frameworks.of_manifest({"apiVersion": "batch/v1", "kind": "TestJob"}) is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_module:X", "framework mine cannot be loaded from no_such_module:X: ModuleNotFoundError"),
        (f"{MODULE}:NONE", f"framework mine cannot be loaded from {MODULE}:NONE: AttributeError"),
        (f"{MODULE}:_env", f"framework mine cannot be loaded from {MODULE}:_env: TypeError: it is not a"),
        (
            "tests.cli.test_frameworks:MISTYPED",
            "framework mine cannot be loaded from tests.cli.test_frameworks:MISTYPED: Attrib",
        ),
    ],
)
def test_an_entry_that_is_no_framework_is_named(entries: list[EntryPoint], value: str, message: str) -> None:
    entries += [entry("mine", value), entry("pytorch", "jobcommon.operators.pytorch:PYTORCH")]
    assert frameworks.installed() == {"pytorch": PYTORCH}, "a broken one leaves the others alone"
    assert frameworks.chosen(["pytorch"]) == (PYTORCH,)
    for names in ((), ("mine",)):
        with pytest.raises(UserError, match=message):
            frameworks.chosen(names)
    body = {"apiVersion": "kubeflow.org/v1", "kind": "TheirJob", "metadata": {"name": "a"}}
    with pytest.raises(UserError) as refused:
        Wanted.of([Manifest("job.yaml", 1, body)])
    assert message in str(refused.value).splitlines()[0], "the cause comes first"


def test_without_any_framework_the_error_says_what_to_do(entries: list[EntryPoint]) -> None:
    assert entries == []
    with pytest.raises(UserError, match="make setup"):
        frameworks.installed()


def test_a_framework_without_an_entry_is_named_by_its_module(entries: list[EntryPoint]) -> None:
    entries.append(entry("pytorch", "jobcommon.operators.pytorch:PYTORCH"))
    assert frameworks.chosen([f"{MODULE}:TEST_JOB", "pytorch"]) == (TEST_JOB, PYTORCH)
    for name, message in (
        (f"{MODULE}:NONE", f"framework NONE cannot be loaded from {MODULE}:NONE"),
        (MODULE, f"--framework {MODULE}: there is no such framework here"),
        (f"{MODULE}:_env", f"framework _env cannot be loaded from {MODULE}:_env: TypeError: it is not a"),
    ):
        with pytest.raises(UserError, match=message):
            frameworks.chosen([name])


def test_two_frameworks_of_one_kind_are_one_too_many(entries: list[EntryPoint]) -> None:
    entries += [entry("mine", "jobcommon.operators.pytorch:PYTORCH"), entry("theirs", "tests.cli.test_frameworks:SAME_KIND")]
    assert frameworks.installed() == {"mine": PYTORCH}
    with pytest.raises(UserError, match="kind: PyTorchJob is already the kind of framework pytorch"):
        frameworks.chosen(["theirs"])


def _number(_job: Job, _replica: Replica) -> Sequence[EnvVar]:
    return (EnvVar("RANK", 0),)  # type: ignore[arg-type]


def test_plan_names_the_function_of_a_framework_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = replace(TEST_JOB, env=_number)
    monkeypatch.setattr(plan, "of_manifest", lambda _: broken)
    manifest = Manifest("job.yaml", 1, job_manifest(TEST_JOB, {"Worker": 1}))
    with pytest.raises(UserError) as refused:
        plan.describe([manifest], with_manifests=False)
    said = str(refused.value)
    assert 'EnvVar("RANK", 0): the value must be a string; write "0"' in said
    assert said.startswith("job.yaml:1: TestJob demo: a function of framework test raises TypeError")
    assert "(in _number, test_frameworks.py line " in said


# -- What a framework's `own_options` say, the command offers, and its functions find in the job


@dataclass(frozen=True)
class OwnOptions:
    """One of each type."""

    loud: bool = field(default=False, metadata={"help": "Whether it says more."})
    port: int = 7
    share: float = 0.5
    image: str = field(default="a/b", metadata={"metavar": "IMAGE"})
    workers: int = 3


OWN = replace(TEST_JOB, name="my-own", own_options=OwnOptions())
FRAMEWORKS = (MPI, OWN, PYTORCH)


def run(arguments: Sequence[str]) -> tuple[Framework, ...]:
    """The frameworks as the command configures them."""
    seen: list[tuple[Framework, ...]] = []

    def command(my_own_workers: int = 1, own_options: Chosen | None = None) -> None:
        """Its own option goes first."""
        assert my_own_workers == 5
        seen.append(configured(FRAMEWORKS, own_options or {}))

    app = typer.Typer(rich_markup_mode=None)
    app.command()(with_own_options(command, FRAMEWORKS))
    done = CliRunner().invoke(app, ["--my-own-workers", "5", *arguments])
    assert done.exit_code == 0, done.output
    return seen[0]


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [
        ((), {}),
        (("--my-own-loud",), {"loud": True}),
        (("--no-my-own-loud", "--my-own-port=8"), {"port": 8}),
        (("--my-own-share", "1.5", "--my-own-image", "c"), {"share": 1.5, "image": "c"}),
    ],
)
def test_each_field_is_an_option(arguments: Sequence[str], changes: dict[str, Any]) -> None:
    assert run(arguments) == (MPI, replace(OWN, own_options=OwnOptions(**changes)), PYTORCH)


def test_a_job_has_the_options_of_its_framework() -> None:
    mpi, own, _ = run(["--no-mpi-exec", "--mpi-kubectl-image", "my/kubectl:1", "--my-own-port=9"])
    chosen = mpi_options(read_job(mpi, job_manifest(MPI, {"Launcher": 1, "Worker": 1})))
    assert (chosen.exec, chosen.kubectl_image) == (False, "my/kubectl:1")
    assert read_job(own, job_manifest(own, {"Worker": 1})).own_options == OwnOptions(port=9)


# -- `jobcommon rbac`, and frameworks that are named by their module

BY_MODULE = "jobcommon.testutil.frameworks:TEST_JOB"


def printed(*arguments: str) -> list[dict[str, Any]]:
    """The documents that a command prints."""
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.exception
    return [document for document in yaml.safe_load_all(result.output) if document]


def as_json(rules: tuple[rbac.Rule, ...]) -> list[dict[str, Any]]:
    return [rule.to_json() for rule in rules]


@pytest.mark.parametrize(("name", "framework"), [("pytorch", PYTORCH), (BY_MODULE, TEST_JOB)])
def test_the_roles_of_one_framework(name: str, framework: Any) -> None:
    own, view, edit, *reads, leader = printed("rbac", name)
    assert [role["rules"] for role in reads] == ([as_json(rbac.kueue_reads([framework]))] if name == BY_MODULE else [])
    assert (own["kind"], own["metadata"]["name"]) == ("ClusterRole", f"{framework.name}-operator")
    assert own["rules"] == as_json(rbac.operator_rules([framework]))
    assert view["rules"] == as_json(rbac.user_rules(framework, edit=False))
    assert edit["rules"] == as_json(rbac.user_rules(framework, edit=True))
    to = ("k8s.io/aggregate-to-", "kubeflow.org/aggregate-to-kubeflow-")
    assert set(edit["metadata"]["labels"]) == {f"rbac.authorization.{one}{who}" for one in to for who in ("edit", "admin")}
    assert (leader["kind"], leader["rules"]) == ("Role", as_json(rbac.lease_rules("jobcommon-operator")))


def test_rbac_for_named_namespaces_has_roles_only() -> None:
    in_each = printed("rbac", "jax", "--namespace", "team-a", "--namespace", "team-b", "--lease-namespace", "operators")
    assert {role["kind"] for role in in_each} == {"Role"}
    names = ("jax-operator", "jax-operator-view", "jax-operator-edit")
    found = [(role["metadata"]["namespace"], role["metadata"]["name"]) for role in in_each]
    assert found == [*((one, name) for one in ("team-a", "team-b") for name in names), ("operators", "jax-operator-leader")]
    assert printed("rbac", "jax", "--namespace", "team-a")[-1]["metadata"]["namespace"] == "team-a"


@pytest.mark.parametrize("namespace", [(), ("--namespace", "team-a")])
def test_the_options_of_the_operator_add_their_rights(namespace: tuple[str, ...]) -> None:
    roles = printed("rbac", BY_MODULE, "--gang-scheduler-name", "volcano", "--kueue", "own", *namespace)
    found = {role["metadata"]["name"].removeprefix("test-operator"): role["rules"] for role in roles}
    own = [*rbac.operator_rules([TEST_JOB]), *rbac.gang_rules(VOLCANO), *rbac.KUEUE]
    assert found[""] == as_json((*own, *(() if namespace else rbac.KUEUE_CLUSTER)))
    assert found.get("-kueue") == (as_json(rbac.KUEUE_CLUSTER) if namespace else None), "flavors belong to no namespace"
    assert found["-kueue-reads"] == as_json(rbac.kueue_reads([TEST_JOB]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--kueue ours", "--kueue "), ("--gang-scheduler-name 'My Scheduler'", "--gang-scheduler-name "),
        ("--output values", "--output values: name one framework"), ("jax tensorflow --output values", "--output values: name"),
        ("--output xml", "--output xml: use yaml or values"),
    ],
)  # fmt: skip
def test_an_option_that_makes_no_sense(options: str, said: str) -> None:
    result = CliRunner().invoke(app, ["rbac", *shlex.split(options)])
    assert isinstance(result.exception, UserError)
    assert str(result.exception).startswith(said)


def test_a_rule_for_no_field_names_the_framework() -> None:
    rule = CelRule("true", "never", ("spec", "slots"))
    with pytest.raises(UserError, match=r"framework test: the rule 'true' is for spec.slots, which the schema does not have"):
        as_yaml([replace(TEST_JOB, rules=(rule,))])
