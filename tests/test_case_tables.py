"""Every row of the reference's behavioural cases is a test: which one, and that it has as many cases as the table has rows.

Sections are those of the notes on the reference's own tests (kubeflow/common, TFJob, PyTorchJob; MPIJob, MXJob). Left out:
kinds of no operator here (Paddle, XGBoost); the StatefulSets and the delivery image of MPIJob v1alpha1, for there are pods now,
and names that resolve; the SDK's own unit tests: what it does against a cluster is in tests/sdk, in an environment of its own.
"""

import importlib
import math
from collections.abc import Mapping, Sequence

import pytest

# section: the rows of its tables, and the tests; one without a module is in that of the one before
Table = Mapping[str, tuple[int, Sequence[str]]]
COMMON: Table = {
    "A1 conditions in sequence": (5, ["reconcile.test_conditions::test_sequences"]),
    "A2 predicates": (6, ["reconcile.test_conditions::test_predicates"]),
    "A3 suspended": (4, ["reconcile.test_conditions::test_suspended"]),
    "A4 managedBy": (5, ["reconcile.test_conditions::test_managed_by"]),
    "B exit codes": (7, ["reconcile.test_ending::test_exit_codes_under_policy_exit_code", "::test_causes_are_decoded"]),
    "C restart policy of the pod": (5, ["reconcile.test_ending::test_restart_policy_of_the_pod"]),
    "D slices": (3, ["reconcile.test_children::test_o_creations"]),
    "E labels": (1, ["reconcile.test_children::test_n_pod_and_service"]),
    "F names": (3, ["reconcile.test_children::test_f_names"]),
    "G counting": (1, ["reconcile.test_status::test_g_counting"]),
    "H clean-up": (8, ["reconcile.test_cleanup::test_h_clean_pod_policy"]),
    "I back-off": (2, ["reconcile.test_limits::test_backoff_limit"]),
    "I deadline": (2, ["reconcile.test_limits::test_deadline"]),
    "I time to live": (6, ["reconcile.test_cleanup::test_ttl"]),
    "J another scheduler": (6, ["reconcile.test_gang::test_another_scheduler_is_noticed"]),
    "K ownership": (
        4,
        [
            "controller.test_controller::test_k_ownership_is_by_uid_and_nothing_is_adopted",
            "reconcile.test_cleanup::test_11_a_pod_that_only_claims_to_be_ours_is_left_alone",
        ],
    ),
    "L expectations": (
        4,
        [
            "controller.test_expectations::test_l_ten_creations_and_thirty_deletions",
            "::test_they_lapse_and_tell_when",
            "::test_raising_one_again_renews_it",
            "::test_each_way_to_meet_one",
        ],
    ),
    "M chosen frameworks": (
        5,
        [
            "cli.test_frameworks::test_a_third_party_s_framework_stands_beside_ours",
            "::test_an_entry_that_is_no_framework_is_named",
            "cli.test_commands::test_bad_arguments_are_refused_with_the_fix",
        ],
    ),
    "N pod": (1, ["reconcile.test_children::test_n_pod_and_service"]),
}
TF: Table = {
    "O normal path": (8, ["operators.test_tf_cases::test_normal_path"]),
    "P status": (19, ["operators.test_tf_cases::test_status"]),
    "P one worker": (1, ["operators.test_tf_cases::test_one_failed_worker_under_never"]),
    "Q clean-up": (4, ["operators.test_tf_cases::test_clean_pod_policy"]),
    "Q deadline": (2, ["operators.test_tf_cases::test_active_deadline"]),
    "Q back-off": (1, ["operators.test_tf_cases::test_backoff_limit_counts_restarts_in_place"]),
    "R TF_CONFIG": (5, ["operators.test_tf_cases::test_dense_tf_config"]),
    "R distributed": (4, ["operators.test_tf_cases::test_only_distributed_jobs_have_a_tf_config"]),
    "R sparse": (3, ["operators.test_tf_cases::test_sparse_tf_config", "::test_sparse_tf_config_in_full"]),
    "S worker 0": (6, ["operators.test_tf_cases::test_worker_0_completed"]),
    "T exit codes": (
        2,
        ["operators.test_tf_cases::test_retryable_exit_code_replaces_the_pod", "::test_permanent_exit_code_fails_the_job"],
    ),
    "T scaling": (2, ["operators.test_tf_cases::test_scale_down", "::test_scale_up"]),
    "T labels": (1, ["operators.test_tf_cases::test_labels_and_annotations_of_the_template"]),
    "T master": (3, ["operators.test_tf_cases::test_master_role"]),
    "T owner": (1, ["operators.test_tf_cases::test_owner_reference"]),
    "T services": (1, ["operators.test_tf_cases::test_service_per_replica"]),
    "U suspension": (
        4,
        [
            "operators.test_tf_cases::test_suspend_and_resume",
            "reconcile.test_suspension::test_created_suspended",
            "::test_suspend_and_resume_a_running_job",
            "operators.test_pytorch_cases::test_u_suspend_and_resume",
        ],
    ),
    "U managedBy": (2, ["operators.test_tf_cases::test_managed_elsewhere"]),
    "V defaults": (6, ["operators.test_tf_cases::test_defaults"]),
    "W validation": (7, ["operators.test_tf_cases::test_validation"]),
    "end to end: policy and code": (8, ["operators.test_tf_cases::test_policy_and_exit_code_of_a_parameter_server"]),
    "end to end: clean-up": (3, ["operators.test_tf_cases::test_clean_up_end_to_end"]),
    "end to end: shutdown": (2, ["operators.test_tf_cases::test_shutdown_with_the_leader"]),
    "end to end: names": (1, ["operators.test_tf_cases::test_pod_names"]),
    "end to end: Estimator": (1, ["operators.test_tf_cases::test_estimator_cluster"]),
    "end to end: unknown field": (1, ["operators.test_tf_cases::test_unknown_field_instead_of_replica_specs"]),
    "end to end: events": (1, ["controller.test_report::test_creations"]),
}
PYTORCH: Table = {
    "X elastic bounds": (4, ["operators.test_pytorch_cases::test_x_elastic_bounds"]),
    "X nprocPerNode": (2, ["operators.test_pytorch_cases::test_x_processes_per_node_default_to_auto"]),
    "X elastic variables": (1, ["operators.test_pytorch_cases::test_x_elastic_variables"]),
    "X no init container": (2, ["operators.test_pytorch_cases::test_x_no_init_container"]),
    "X success": (2, ["operators.test_pytorch_cases::test_x_success"]),
    "X autoscaler": (1, ["operators.test_pytorch_cases::test_x_the_autoscaler"]),
    "X queue": (4, ["api.test_bad_manifests::test_what_is_immutable"]),
    "X variables": (5, ["operators.test_pytorch_cases::test_x_derived_variables"]),
    "Y validation": (12, ["operators.test_pytorch_cases::test_y_validation"]),
}
UNTESTED_BY_THE_REFERENCE: Table = {
    "Z1": (1, ["operators.test_tf_cases::test_z1_a_deleted_worker_is_no_failure"]),
    "Z2": (1, ["operators.test_pytorch_cases::test_z2_a_deleted_worker_is_no_failure"]),
    "Z3": (1, ["operators.test_tf_cases::test_scale_down"]),
    "Z4": (1, ["reconcile.test_status::test_z4_a_scale_down_makes_no_success"]),
    "Z5": (1, ["operators.test_tf_cases::test_z5_resumed_within_the_grace_period"]),
    "Z6, Z7": (2, ["reconcile.test_ending::test_ends_without_fault"]),
    "Z8, Z9": (2, ["reconcile.test_limits::test_backoff_limit"]),
    "Z10": (1, ["reconcile.test_limits::test_deadline"]),
    "Z11": (1, ["reconcile.test_cleanup::test_z11_a_stopped_job_stops_even_under_policy_none"]),
    "Z12": (1, ["operators.test_pytorch_cases::test_z12_a_permanent_failure_has_a_completion_time"]),
    "Z13": (1, ["reconcile.test_limits::test_z13_the_end_is_written_before_the_job_is_deleted"]),
    "Z14": (1, ["operators.test_pytorch_cases::test_z14_the_master_s_success_beats_a_worker_s_failure"]),
    "Z15": (1, ["operators.test_tf_cases::test_status"]),
    "Z16": (1, ["reconcile.test_children::test_o_creations"]),
    "Z17, Z18": (2, ["reconcile.test_cleanup::test_11_a_pod_that_only_claims_to_be_ours_is_left_alone"]),
    "Z19": (1, ["runtime.test_executor::test_what_an_answer_makes_of_an_action"]),
    "Z20": (1, ["controller.test_report::test_5_6_a_name_that_is_taken"]),
    "Z21": (1, ["controller.test_controller::test_1_recreation_under_the_same_name"]),
    "Z22": (1, ["controller.test_controller::test_23_a_restart_of_the_operator_announces_nothing"]),
    "Z23": (1, ["operators.test_tf_cases::test_validation"]),
    "Z24": (1, ["reconcile.test_children::test_z24_precedence_of_variables"]),
    "Z25": (1, ["operators.test_pytorch_cases::test_y_validation"]),
    "Z26": (1, ["operators.test_pytorch_cases::test_x_the_autoscaler"]),
    "Z27": (1, ["operators.test_tf_cases::test_z27_a_permanent_failure_ends_restarting"]),
    "Z28": (1, ["reconcile.test_suspension::test_suspend_and_resume_a_running_job"]),
}
MPI: Table = {
    "A1 defaults": (
        4,
        ["operators.test_mpi_cases::test_defaults_of_an_empty_spec", "::test_what_is_set_is_kept", "::test_defaults_of_a_role"],
    ),
    "A2 validation": (11, ["operators.test_mpi_cases::test_validation"]),
    "A3 hostfile": (10, ["operators.test_mpi_cases::test_hostfile"]),
    "A4 discover_hosts.sh": (8, ["operators.test_mpi_cases::test_discover_hosts"]),
    "A5 pods": (
        3,
        [
            "operators.test_mpi_cases::test_launcher_by_default",
            "::test_worker_by_default",
            "::test_launcher_as_worker",
            "::test_overrides",
        ],
    ),
    "A6 all created": (3, ["operators.test_mpi_cases::test_all_is_created"]),
    "A6 invalid": (1, ["operators.test_mpi_cases::test_an_invalid_job_says_so_in_its_status"]),
    "A6 managed by": (1, ["operators.test_mpi_cases::test_managed_by"]),
    "A6 foreign child": (1, ["controller.test_report::test_5_6_a_name_that_is_taken"]),
    "A6 launcher's end": (
        3,
        [
            "operators.test_mpi_cases::test_launcher_succeeded",
            "::test_launcher_succeeded_while_workers_run",
            "::test_launcher_fails_until_backoff_limit",
        ],
    ),
    "A6 clean-up": (2, ["operators.test_mpi_cases::test_clean_up"]),
    "A6 suspension": (4, ["operators.test_mpi_cases::test_created_suspended", "::test_suspended_and_resumed"]),
    "A6 running": (3, ["operators.test_mpi_cases::test_running"]),
    "A6 failed and evicted workers": (2, ["operators.test_mpi_cases::test_a_lost_worker_is_replaced_or_fails_the_job"]),
    "A6 scaling": (3, ["operators.test_mpi_cases::test_scale_down", "::test_scale_up"]),
    "A6 waiting": (1, ["operators.test_mpi_cases::test_the_launcher_waits_for_ready_workers"]),
    "A6 deadline": (1, ["operators.test_mpi_cases::test_the_reason_of_a_passed_deadline"]),
    "A6 truncation": (1, ["operators.test_mpi_cases::test_long_messages_are_cut"]),
    "A7 from start to end": (2, ["operators.test_mpi_cases::test_success"]),
    "A7 schedulers": (2, ["runtime.test_gang::test_volcano_from_the_queue_to_the_end", "::test_the_coscheduling_plugin"]),
    "A8 runs": (
        4,
        [
            "operators.test_mpi_run::test_a_malformed_command_uses_up_backoff_limit",
            "::test_allreduce_over_ssh",
            "::test_allreduce_over_kubectl_exec",
        ],
    ),
    "A9 PodGroup": (3, ["reconcile.test_gang::test_pod_groups"]),
    "A9 minResources": (11, ["reconcile.test_gang::test_min_resources"]),
    "A9 containers": (3, ["reconcile.test_resources::test_requests"]),
    "A9 minAvailable": (2, ["reconcile.test_gang::test_default_of_min_member_is_all_replicas", "::test_pod_groups"]),
    "A9 priorityClass": (4, ["reconcile.test_gang::test_priority_class"]),
    "B GPU launcher": (3, ["operators.test_mpi_v1_cases::test_a_launcher_with_a_gpu_is_a_host"]),
    "B Intel": (4, ["operators.test_mpi_v1_cases::test_intel_mpi_settings_of_the_user"]),
    "B counts": (5, ["operators.test_mpi_v1_cases::test_counts", "::test_workers_count_no_more_when_they_are_gone"]),
    "B account": (1, ["operators.test_mpi_v1_cases::test_a_service_account_of_the_users_is_neither_made_nor_owned"]),
    "B suspension": (1, ["operators.test_mpi_v1_cases::test_suspend_and_resume"]),
    "B managedBy": (1, ["operators.test_mpi_v1_cases::test_managed_elsewhere"]),
    "B validation": (5, ["operators.test_mpi_v1_cases::test_validation", "::test_replica_specs_are_required"]),
    "B defaults": (2, ["operators.test_mpi_v1_cases::test_defaults", "::test_clean_pod_policy_of_both_places"]),
    "B v1alpha1 sizing": (4, ["convert.test_values::test_flat_mpijob_sizes"]),
    "B v1alpha2 retry": (1, ["operators.test_mpi_v1_cases::test_a_failed_launcher_fails_a_v1_job_and_is_retried_in_v1alpha2"]),
    "B v1alpha2 clean-up": (1, ["operators.test_mpi_v1_cases::test_v1alpha2_clean_up"]),
}
MXNET: Table = {
    "C1 variables": (4, ["operators.test_mx_cases::test_environment"]),
    "C1 tuner-server-key": (1, ["operators.test_mx_cases::test_tuner_server_key"]),
    "C2 defaults": (7, ["operators.test_mx_cases::test_defaults"]),
    "C3 validation": (9, ["operators.test_mx_cases::test_validation"]),
    "C4 restart policy": (4, ["operators.test_mx_cases::test_restart_policy"]),
    "C4 exit code": (1, ["operators.test_mx_cases::test_exit_code_130_replaces_the_pod"]),
    "C5 status": (9, ["operators.test_mx_cases::test_status"]),
    "C5 servers and tuners": (3, ["operators.test_mx_cases::test_servers_do_not_decide", "::test_the_tuner_decides"]),
    "C6 suspension": (1, ["operators.test_mx_cases::test_suspend_and_resume"]),
    "D JAX": (2, ["frameworks.test_jax::test_environment"]),
}
TABLES = {"common": COMMON, "TFJob": TF, "PyTorchJob": PYTORCH, "Z": UNTESTED_BY_THE_REFERENCE, "MPIJob": MPI, "MXJob": MXNET}
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
