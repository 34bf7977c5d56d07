"""JAXJob, XGBoostJob and PaddleJob: what holds for all of them, and that each is a short policy."""

import ast

import pytest

from jobcommon.framework import Framework
from jobcommon.operators.jax import JAX
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.reconcile import read_job
from jobcommon.testutil import plans
from jobcommon.testutil.builders import job_manifest
from jobcommon.testutil.plans import conditions, creates, deletes, holding, next_pass
from tests.architecture.source import ROOT

KINDS = pytest.mark.parametrize("framework", [JAX, XGBOOST, PADDLE], ids=lambda framework: framework.kind)
REPLICAS = {JAX.kind: {"Worker": 2}, XGBOOST.kind: {"Master": 1, "Worker": 1}, PADDLE.kind: {"Master": 1, "Worker": 1}}
LINES = 40


@KINDS
def test_the_policy_has_at_most_forty_lines(framework: Framework) -> None:
    """Of code: no imports, no docstrings, no comments, no blank lines."""
    text = (ROOT / "operators" / framework.name / "framework.py").read_text(encoding="utf-8")
    lines: set[int] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ):
            continue
        lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
            first = node.body[0]
            lines -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    code = [line.strip() for number, line in enumerate(text.splitlines(), 1) if number in lines]
    assert len([line for line in code if line and not line.startswith("#")]) <= LINES


@KINDS
def test_suspend_and_resume(framework: Framework) -> None:
    """Created suspended, resumed, suspended while it runs, and resumed again."""
    replicas = REPLICAS[framework.kind]
    suspended, manifest = job_manifest(framework, replicas, run_policy={"suspend": True}), job_manifest(framework, replicas)
    slots = [f"{replica.type}-{replica.index}" for replica in read_job(framework, manifest).replicas]
    pods, running = [f"demo-{slot.lower()}" for slot in slots], dict.fromkeys(slots, "running")

    created = plans.decide(framework, suspended, {})
    assert creates(created) == []
    assert conditions(created)[-1].startswith(f"Suspended=T {framework.kind}Suspended")
    resumed = plans.decide(framework, next_pass(manifest, created), {})
    assert creates(plans.decide(framework, next_pass(manifest, resumed), {})) == pods

    ran = plans.decide(framework, manifest, running)
    assert holding(ran)[-1] == "Running"
    stopped = plans.decide(framework, next_pass(suspended, ran), running)
    assert deletes(plans.decide(framework, next_pass(suspended, stopped), running)) == pods
    resumed = plans.decide(framework, next_pass(manifest, stopped), {})
    assert creates(plans.decide(framework, next_pass(manifest, resumed), {})) == pods


@KINDS
def test_a_job_managed_elsewhere_is_left_alone(framework: Framework) -> None:
    policy = {"managedBy": "kueue.x-k8s.io/multikueue"}
    decision = plans.decide(framework, job_manifest(framework, REPLICAS[framework.kind], run_policy=policy), {})
    assert (decision.actions, decision.status) == ((), None)
