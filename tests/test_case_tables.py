"""Every row of the reference's behavioural cases is a test: which one, and that it has as many cases as the table has rows.

Subjects are those of the reference's own tests (kubeflow/common and the kinds). Left out:
the StatefulSets and the delivery image of MPIJob v1alpha1, for there are pods now,
and names that resolve; the SDK's own unit tests: what it does against a cluster is in tests/sdk, in an environment of its own.
"""

import importlib
import math
from collections.abc import Mapping, Sequence

import pytest

# subject: the rows of its tables, and the tests; one without a module is in that of the one before
Table = Mapping[str, tuple[int, Sequence[str]]]
COMMON: Table = {
    "conditions in sequence": (5, ["reconcile.test_conditions::test_sequences"]),
    "predicates": (6, ["reconcile.test_conditions::test_predicates"]),
    "suspended": (4, ["reconcile.test_conditions::test_suspended"]),
    "managedBy": (5, ["reconcile.test_conditions::test_managed_by"]),
    "exit codes": (7, ["reconcile.test_ending::test_exit_codes_under_policy_exit_code", "::test_causes_are_decoded"]),
    "restart policy of the pod": (5, ["reconcile.test_ending::test_restart_policy_of_the_pod"]),
    "slices": (3, ["reconcile.test_children::test_a_new_job_creates_its_service_and_pods"]),
    "labels": (1, ["reconcile.test_children::test_a_pod_and_its_service_in_full"]),
    "names": (3, ["reconcile.test_children::test_names_are_lower_case"]),
    "counting": (1, ["reconcile.test_status::test_replicas_are_counted"]),
    "clean-up": (8, ["reconcile.test_cleanup::test_clean_pod_policy"]),
    "back-off": (2, ["reconcile.test_limits::test_backoff_limit"]),
    "deadline": (2, ["reconcile.test_limits::test_deadline"]),
    "time to live": (6, ["reconcile.test_cleanup::test_ttl"]),
    "another scheduler": (6, ["reconcile.test_gang::test_another_scheduler_is_noticed"]),
    "ownership": (
        4,
        [
            "controller.test_controller::test_ownership_is_by_uid_and_nothing_is_adopted",
            "reconcile.test_cleanup::test_a_pod_that_only_claims_to_be_ours_is_left_alone",
        ],
    ),
    "expectations": (
        4,
        [
            "controller.test_expectations::test_ten_creations_and_thirty_deletions",
            "::test_expectations_lapse_at_their_expiry",
            "::test_raising_one_again_renews_it",
            "::test_each_way_to_meet_one",
        ],
    ),
    "chosen frameworks": (
        5,
        [
            "cli.test_frameworks::test_a_third_party_s_framework_stands_beside_ours",
            "::test_an_entry_that_is_no_framework_is_named",
            "cli.test_commands::test_bad_arguments_are_refused_with_the_fix",
        ],
    ),
    "pod": (1, ["reconcile.test_children::test_a_pod_and_its_service_in_full"]),
}
TF: Table = {
    "normal path": (8, ["operators.test_tf_cases::test_normal_path"]),
    "status": (19, ["operators.test_tf_cases::test_status"]),
    "one worker": (1, ["operators.test_tf_cases::test_a_failed_worker_under_never_fails_the_job"]),
    "clean-up": (4, ["operators.test_tf_cases::test_clean_pod_policy"]),
    "deadline": (2, ["operators.test_tf_cases::test_active_deadline"]),
    "back-off": (1, ["operators.test_tf_cases::test_backoff_limit_counts_restarts_in_place"]),
    "TF_CONFIG": (5, ["operators.test_tf_cases::test_dense_tf_config"]),
    "distributed": (4, ["operators.test_tf_cases::test_only_distributed_jobs_have_a_tf_config"]),
    "sparse": (3, ["operators.test_tf_cases::test_sparse_tf_config", "::test_sparse_tf_config_in_full"]),
    "worker 0": (6, ["operators.test_tf_cases::test_worker_0_completed"]),
    "exit codes": (
        2,
        ["operators.test_tf_cases::test_retryable_exit_code_replaces_the_pod", "::test_permanent_exit_code_fails_the_job"],
    ),
    "scaling": (2, ["operators.test_tf_cases::test_scale_down", "::test_scale_up"]),
    "labels": (1, ["operators.test_tf_cases::test_labels_and_annotations_of_the_template"]),
    "master": (3, ["operators.test_tf_cases::test_master_role"]),
    "owner": (1, ["operators.test_tf_cases::test_owner_reference"]),
    "services": (1, ["operators.test_tf_cases::test_service_per_replica"]),
    "suspension": (
        4,
        [
            "operators.test_tf_cases::test_suspend_and_resume",
            "reconcile.test_suspension::test_created_suspended",
            "::test_suspend_and_resume_a_running_job",
            "operators.test_pytorch_cases::test_suspend_and_resume_of_a_pytorchjob",
        ],
    ),
    "managedBy": (2, ["operators.test_tf_cases::test_managed_elsewhere"]),
    "defaults": (6, ["operators.test_tf_cases::test_defaults"]),
    "validation": (7, ["operators.test_tf_cases::test_validation"]),
    "end to end: policy and code": (8, ["operators.test_tf_cases::test_policy_and_exit_code_of_a_parameter_server"]),
    "end to end: clean-up": (3, ["operators.test_tf_cases::test_clean_up_end_to_end"]),
    "end to end: shutdown": (2, ["operators.test_tf_cases::test_shutdown_with_the_leader"]),
    "end to end: names": (1, ["operators.test_tf_cases::test_pod_names"]),
    "end to end: Estimator": (1, ["operators.test_tf_cases::test_estimator_cluster"]),
    "end to end: unknown field": (1, ["operators.test_tf_cases::test_unknown_field_instead_of_replica_specs"]),
    "end to end: events": (1, ["controller.test_report::test_creations"]),
}
PYTORCH: Table = {
    "elastic bounds": (4, ["operators.test_pytorch_cases::test_elastic_bounds"]),
    "nprocPerNode": (2, ["operators.test_pytorch_cases::test_processes_per_node_default_to_auto"]),
    "elastic variables": (1, ["operators.test_pytorch_cases::test_elastic_variables"]),
    "no init container": (2, ["operators.test_pytorch_cases::test_no_init_container"]),
    "success": (2, ["operators.test_pytorch_cases::test_when_a_pytorchjob_succeeds"]),
    "autoscaler": (1, ["operators.test_pytorch_cases::test_the_autoscaler"]),
    "queue": (4, ["api.test_bad_manifests::test_immutable_fields_cannot_be_changed"]),
    "variables": (5, ["operators.test_pytorch_cases::test_derived_variables"]),
    "validation": (12, ["operators.test_pytorch_cases::test_validation"]),
}
UNTESTED_BY_THE_REFERENCE: Table = {
    "a deleted worker of a TFJob is no failure": (1, ["operators.test_tf_cases::test_a_deleted_worker_is_no_failure"]),
    "a deleted worker of a PyTorchJob is no failure": (
        1,
        ["operators.test_pytorch_cases::test_a_deleted_worker_is_no_failure"],
    ),
    "a TFJob scaled down": (1, ["operators.test_tf_cases::test_scale_down"]),
    "a scale-down makes no success": (1, ["reconcile.test_status::test_a_scale_down_makes_no_success"]),
    "resumed within the grace period": (1, ["operators.test_tf_cases::test_resumed_within_the_grace_period"]),
    "evictions and preemptions": (2, ["reconcile.test_ending::test_ends_without_fault"]),
    "the back-off limit, by one more and at 0": (2, ["reconcile.test_limits::test_backoff_limit"]),
    "the deadline wakes the job by itself": (1, ["reconcile.test_limits::test_deadline"]),
    "a stopped job stops under policy None": (1, ["reconcile.test_cleanup::test_a_stopped_job_stops_even_under_policy_none"]),
    "a permanent failure has a completion time": (
        1,
        ["operators.test_pytorch_cases::test_a_permanent_failure_has_a_completion_time"],
    ),
    "the end is written before the job is deleted": (
        1,
        ["reconcile.test_limits::test_the_end_is_written_before_the_job_is_deleted"],
    ),
    "the master beats a worker": (1, ["operators.test_pytorch_cases::test_the_master_s_success_beats_a_worker_s_failure"]),
    "the chief beats the workers": (1, ["operators.test_tf_cases::test_status"]),
    "no replicas": (1, ["reconcile.test_children::test_a_new_job_creates_its_service_and_pods"]),
    "a pod that only claims to be ours": (2, ["reconcile.test_cleanup::test_a_pod_that_only_claims_to_be_ours_is_left_alone"]),
    "answers of the API server": (1, ["runtime.test_executor::test_each_answer_of_the_server_has_its_effect"]),
    "a name that is taken": (1, ["controller.test_report::test_a_name_in_use_is_reported"]),
    "recreation under the same name": (1, ["controller.test_controller::test_a_job_recreated_under_the_same_name_starts_anew"]),
    "a restart of the operator": (1, ["controller.test_controller::test_a_restart_of_the_operator_emits_no_event"]),
    "names too long for their pods": (1, ["operators.test_tf_cases::test_validation"]),
    "precedence of variables": (1, ["reconcile.test_children::test_precedence_of_variables"]),
    "elastic bounds that contradict": (1, ["operators.test_pytorch_cases::test_validation"]),
    "the autoscaler goes": (1, ["operators.test_pytorch_cases::test_the_autoscaler"]),
    "a permanent failure ends restarting": (1, ["operators.test_tf_cases::test_a_permanent_failure_ends_restarting"]),
    "conditions when resumed": (1, ["reconcile.test_suspension::test_suspend_and_resume_a_running_job"]),
}
MPI: Table = {
    "defaults": (
        4,
        [
            "operators.test_mpi_cases::test_defaults_of_an_empty_spec",
            "::test_defaults_keep_fields_that_are_set",
            "::test_defaults_of_a_role",
        ],
    ),
    "validation": (11, ["operators.test_mpi_cases::test_validation"]),
    "hostfile": (10, ["operators.test_mpi_cases::test_hostfile"]),
    "discover_hosts.sh": (8, ["operators.test_mpi_cases::test_discover_hosts"]),
    "pods": (
        3,
        [
            "operators.test_mpi_cases::test_launcher_by_default",
            "::test_worker_by_default",
            "::test_launcher_as_worker",
            "::test_overrides",
        ],
    ),
    "all created": (3, ["operators.test_mpi_cases::test_all_is_created"]),
    "invalid": (1, ["operators.test_mpi_cases::test_an_invalid_job_says_so_in_its_status"]),
    "managed by": (1, ["operators.test_mpi_cases::test_managed_by"]),
    "foreign child": (1, ["controller.test_report::test_a_name_in_use_is_reported"]),
    "launcher's end": (
        3,
        [
            "operators.test_mpi_cases::test_launcher_succeeded",
            "::test_launcher_succeeded_while_workers_run",
            "::test_launcher_fails_until_backoff_limit",
        ],
    ),
    "clean-up": (2, ["operators.test_mpi_cases::test_clean_up"]),
    "suspension": (4, ["operators.test_mpi_cases::test_created_suspended", "::test_suspended_and_resumed"]),
    "running": (3, ["operators.test_mpi_cases::test_running"]),
    "failed and evicted workers": (2, ["operators.test_mpi_cases::test_a_lost_worker_is_replaced_or_fails_the_job"]),
    "scaling": (3, ["operators.test_mpi_cases::test_scale_down", "::test_scale_up"]),
    "waiting": (1, ["operators.test_mpi_cases::test_the_launcher_waits_for_ready_workers"]),
    "deadline": (1, ["operators.test_mpi_cases::test_the_reason_of_a_passed_deadline"]),
    "truncation": (1, ["operators.test_mpi_cases::test_long_messages_are_cut"]),
    "from start to end": (2, ["operators.test_mpi_cases::test_success"]),
    "schedulers": (2, ["runtime.test_gang::test_volcano_from_the_queue_to_the_end", "::test_the_coscheduling_plugin"]),
    "runs": (
        4,
        [
            "operators.test_mpi_run::test_a_malformed_command_uses_up_backoff_limit",
            "::test_allreduce_over_ssh",
            "::test_allreduce_over_kubectl_exec",
        ],
    ),
    "PodGroup": (3, ["reconcile.test_gang::test_pod_groups"]),
    "minResources": (11, ["reconcile.test_gang::test_min_resources"]),
    "containers": (3, ["reconcile.test_resources::test_requests"]),
    "minAvailable": (2, ["reconcile.test_gang::test_default_of_min_member_is_all_replicas", "::test_pod_groups"]),
    "priorityClass": (4, ["reconcile.test_gang::test_priority_class"]),
    "v1 GPU launcher": (3, ["operators.test_mpi_v1_cases::test_a_launcher_with_a_gpu_is_a_host"]),
    "v1 Intel": (4, ["operators.test_mpi_v1_cases::test_intel_mpi_settings_of_the_user"]),
    "v1 counts": (5, ["operators.test_mpi_v1_cases::test_counts", "::test_workers_count_no_more_when_they_are_gone"]),
    "v1 account": (1, ["operators.test_mpi_v1_cases::test_a_service_account_of_the_users_is_neither_made_nor_owned"]),
    "v1 suspension": (1, ["operators.test_mpi_v1_cases::test_suspend_and_resume"]),
    "v1 managedBy": (1, ["operators.test_mpi_v1_cases::test_managed_elsewhere"]),
    "v1 validation": (5, ["operators.test_mpi_v1_cases::test_validation", "::test_replica_specs_are_required"]),
    "v1 defaults": (2, ["operators.test_mpi_v1_cases::test_defaults", "::test_clean_pod_policy_of_both_places"]),
    "v1alpha1 sizing": (4, ["convert.test_values::test_flat_mpijob_sizes"]),
    "v1alpha2 retry": (1, ["operators.test_mpi_v1_cases::test_a_failed_launcher_fails_a_v1_job_and_is_retried_in_v1alpha2"]),
    "v1alpha2 clean-up": (1, ["operators.test_mpi_v1_cases::test_v1alpha2_clean_up"]),
}
MXNET: Table = {
    "variables": (4, ["operators.test_mx_cases::test_environment"]),
    "tuner-server-key": (1, ["operators.test_mx_cases::test_tuner_server_key"]),
    "defaults": (7, ["operators.test_mx_cases::test_defaults"]),
    "validation": (9, ["operators.test_mx_cases::test_validation"]),
    "restart policy": (4, ["operators.test_mx_cases::test_restart_policy"]),
    "exit code": (1, ["operators.test_mx_cases::test_exit_code_130_replaces_the_pod"]),
    "status": (9, ["operators.test_mx_cases::test_status"]),
    "servers and tuners": (3, ["operators.test_mx_cases::test_servers_do_not_decide", "::test_the_tuner_decides"]),
    "suspension": (1, ["operators.test_mx_cases::test_suspend_and_resume"]),
}
OTHERS: Table = {
    "JAX": (3, ["operators.test_jax_cases::test_environment", "::test_errors_name_the_field"]),
    "XGBoost": (8, ["operators.test_xgboost_cases::test_environment", "::test_validation"]),
    "Paddle": (8, ["operators.test_paddle_cases::test_environment", "::test_validation"]),
    "suspension": (3, ["operators.test_new_kinds::test_suspend_and_resume"]),
}
TABLES = {
    "common": COMMON,
    "TFJob": TF,
    "PyTorchJob": PYTORCH,
    "untested": UNTESTED_BY_THE_REFERENCE,
    "MPIJob": MPI,
    "MXJob": MXNET,
    "JAXJob, XGBoostJob, PaddleJob": OTHERS,
}
SECTIONS = {f"{name} {section}": row for name, table in TABLES.items() for section, row in table.items()}


def cases(module: str, name: str) -> int:
    """How many cases a test function has. Raises when there is none of that name."""
    function = getattr(importlib.import_module(f"tests.{module}"), name)
    marks = [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]
    return math.prod(len(mark.args[1]) for mark in marks)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_row_is_a_test(section: str) -> None:
    rows, tests = SECTIONS[section]
    found, module = 0, ""
    for node in tests:
        at, _, name = node.partition("::")
        module = at or module
        found += cases(module, name)
    assert found >= rows


def test_a_test_that_is_gone_is_noticed() -> None:
    with pytest.raises(AttributeError):
        cases("operators.test_tf_cases", "test_that_never_was")
    assert cases("operators.test_tf_cases", "test_status") == 19
