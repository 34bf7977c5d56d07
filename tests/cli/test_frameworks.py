"""Frameworks are found by entry points, those of other packages as well."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

from jobcommon.cli import frameworks, plan
from jobcommon.cli.errors import UserError
from jobcommon.cli.manifests import Manifest
from jobcommon.cli.wanted import Wanted
from jobcommon.framework import EnvVar, Job, Replica
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.builders import job_manifest
from jobcommon.testutil.frameworks import TEST_JOB

SAME_KIND = replace(PYTORCH, name="theirs")
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
        (f"{MODULE}:_env", f"framework mine: {MODULE}:_env is not a"),
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
        (f"{MODULE}:_env", f"framework _env: {MODULE}:_env is not a"),
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
        plan.describe([manifest], (), with_manifests=False)
    said = str(refused.value)
    assert 'EnvVar("RANK", 0): the value must be a string; write "0"' in said
    assert said.startswith("job.yaml:1: TestJob demo: a function of framework test raises TypeError")
    assert "(in _number, test_frameworks.py line " in said
