{{- define "jobcommon.alerts" -}}
{{- $of := printf `namespace="%s",job="%s"` .Release.Namespace (include "jobcommon.fullname" .) }}
- name: {{ include "jobcommon.fullname" . }}.operator
  rules:
    - alert: TrainingOperatorDown
      expr: absent(up{ {{- $of -}} } == 1)
      for: 5m
      labels: {severity: critical}
      annotations:
        summary: No training operator can be scraped
        description: Jobs keep running, but no job is started, restarted or ended. Check the pods of the Deployment.
    - alert: TrainingOperatorWithoutLeader
      expr: max(leader_election_master_status{ {{- $of -}} }) < 1
      for: 5m
      labels: {severity: critical}
      annotations:
        summary: No replica of the training operator holds the lease
        description: No job is started, restarted or ended. The logs say why the lease cannot be acquired.
    - alert: TrainingOperatorCacheStale
      expr: max by (framework, resource) (training_operator_cache_age_seconds{ {{- $of -}} }) > 300
      for: 5m
      labels: {severity: warning}
      annotations:
        summary: >-
          {{ `The {{ $labels.framework }} operator has not heard of {{ $labels.resource }} for {{ $value | humanizeDuration }}` }}
        description: A healthy watch gets a bookmark about once a minute. A right may be missing, or the API server is not reachable.
    - alert: TrainingOperatorStatusNotStored
      expr: max by (framework) (training_operator_unstored_status_fields{ {{- $of -}} }) > 0
      for: 5m
      labels: {severity: critical}
      annotations:
        summary: >-
          {{ `The CustomResourceDefinition of {{ $labels.framework }} jobs is outdated` }}
        description: The API server drops status fields, so jobs are not acted on. Apply charts/crds.
    - alert: TrainingOperatorReconcileErrors
      expr: sum by (framework) (increase(training_operator_reconcile_errors_total{ {{- $of -}} }[15m])) > 0
      for: 15m
      labels: {severity: warning}
      annotations:
        summary: >-
          {{ `Reconciles of {{ $labels.framework }} jobs raise exceptions` }}
        description: The operator's logs have the job and the exception.
    - alert: TrainingOperatorLapsedExpectations
      expr: sum by (framework) (increase(training_operator_lapsed_expectations_total{ {{- $of -}} }[1h])) > 0
      labels: {severity: warning}
      annotations:
        summary: >-
          {{ `Writes of the {{ $labels.framework }} operator were not shown by a watch within five minutes` }}
        description: Watches of the API server lag or lose events; the operator continues after the five minutes.
    - alert: TrainingOperatorQueueSlow
      expr: histogram_quantile(0.99, sum by (le, name) (rate(workqueue_queue_duration_seconds_bucket{ {{- $of -}} }[5m]))) > 10
      for: 15m
      labels: {severity: warning}
      annotations:
        summary: >-
          {{ `Keys of {{ $labels.name }} jobs wait {{ $value | humanizeDuration }} in the queue` }}
        description: The operator is short of CPU, or has too few workers (values workers and resources).
    - alert: TrainingOperatorApiErrors
      expr: >-
        sum(rate(rest_client_requests_total{ {{- $of -}} ,code=~"429|5..|<error>"}[5m]))
        / sum(rate(rest_client_requests_total{ {{- $of -}} }[5m])) > 0.05
      for: 15m
      labels: {severity: warning}
      annotations:
        summary: >-
          {{ `{{ $value | humanizePercentage }} of the training operator's requests fail` }}
        description: The API server is overloaded or not reachable.
    - alert: TrainingOperatorForbidden
      expr: sum(increase(rest_client_requests_total{ {{- $of -}} ,code="403"}[15m])) > 0
      for: 30m
      labels: {severity: warning}
      annotations:
        summary: The API server forbids requests of the training operator
        description: A right is missing, a quota is used up, or a policy refuses pods. Events of the jobs say which.
- name: {{ include "jobcommon.fullname" . }}.jobs
  rules:
    - alert: TrainingJobsLaunchSlow
      expr: >-
        histogram_quantile(0.9, sum by (le, framework)
        (rate(training_operator_launch_delay_seconds_bucket{ {{- $of -}} ,stage="running"}[1h]))) > {{ int .launchDelaySeconds }}
      for: 15m
      labels: {severity: warning}
      annotations:
        summary: >-
          {{ `One in ten {{ $labels.framework }} jobs takes {{ $value | humanizeDuration }} or longer from creation to Running` }}
        description: The cluster is full, images are slow to pull, or jobs wait in a queue.
    - alert: TrainingJobsNotLaunched
      expr: >-
        sum by (framework) (increase(training_operator_launch_delay_seconds_count{ {{- $of -}} ,stage="running"}[1h])) == 0
        and on (framework) min by (framework) (min_over_time(training_operator_jobs{ {{- $of -}} ,state="Created"}[1h])) > 0
      labels: {severity: warning}
      annotations:
        summary: >-
          {{ `{{ $labels.framework }} jobs wait, and none has started to run for an hour` }}
        description: The conditions of the jobs say what their pods wait for.
    - alert: TrainingJobsFailing
      expr: >-
        sum by (framework) (increase(training_operator_job_duration_seconds_count{ {{- $of -}} ,result="failed"}[1h]))
        / sum by (framework) (increase(training_operator_job_duration_seconds_count{ {{- $of -}} }[1h])) > 0.5
        and sum by (framework) (increase(training_operator_job_duration_seconds_count{ {{- $of -}} ,result="failed"}[1h])) > 5
      labels: {severity: warning}
      annotations:
        summary: >-
          {{ `{{ $value | humanizePercentage }} of the {{ $labels.framework }} jobs that ended in the last hour have failed` }}
        description: The Failed conditions of the jobs say why.
    - alert: TrainingJobsRestarting
      expr: sum by (framework, reason) (increase(training_operator_restarts_total{ {{- $of -}} }[1h])) > {{ int .restartsPerHour }}
      labels: {severity: warning}
      annotations:
        summary: >-
          {{ `{{ $value | humanize }} restarts in {{ $labels.framework }} jobs within an hour: {{ $labels.reason }}` }}
        description: OOMKilled means that a job needs more memory; Evicted, Preempted and the like come from the cluster.
{{- end }}
