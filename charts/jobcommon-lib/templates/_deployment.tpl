{{- define "jobcommon.args" -}}
- operator
{{- range splitList " " (include "jobcommon.frameworks" .) }}
- --framework={{ . }}
{{- end }}
{{- range .Values.watchNamespaces }}
- --namespace={{ ternary "$(POD_NAMESPACE)" . (eq . $.Release.Namespace) }}
{{- end }}
- --leader-elect
- --lease-namespace=$(POD_NAMESPACE)
- --lease-name={{ include "jobcommon.fullname" . }}
- --metrics-port={{ int .Values.metrics.port }}
- --metrics-host=0.0.0.0
{{- if .Values.metrics.tokenSecret.name }}
- --metrics-token-file=/etc/jobcommon/metrics/token
{{- end }}
{{- if .Values.progress.tlsSecret }}
- --progress-host=0.0.0.0
- --progress-port={{ int .Values.progress.port }}
- --progress-url=https://{{ include "jobcommon.fullname" . }}-progress.{{ .Release.Namespace }}.svc:{{ int .Values.progress.port }}
- --progress-tls=/etc/jobcommon/progress
{{- end }}
- --workers={{ int .Values.workers }}
{{- with .Values.qps }}
- --qps={{ . }}
{{- end }}
{{- with .Values.burst }}
- --burst={{ int . }}
{{- end }}
{{- with .Values.clusterDomain }}
- --cluster-domain={{ . }}
{{- end }}
{{- if not .Values.trackingFinalizer }}
- --no-tracking-finalizer
{{- end }}
{{- if not .Values.mpiExec }}
- --no-mpi-exec
{{- end }}
{{- with .Values.mpiKubectlImage }}
- --mpi-kubectl-image={{ . }}
{{- end }}
{{- with .Values.gangScheduler }}
- --gang-scheduler-name={{ . }}
{{- end }}
{{- with .Values.kueue }}
- --kueue={{ . }}
{{- end }}
- --log-format={{ .Values.logFormat }}
- --log-level={{ .Values.logLevel }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "jobcommon.deployment" -}}
{{- $values := .Values }}
{{- $secrets := or $values.metrics.tokenSecret.name $values.progress.tlsSecret }}
{{- $selector := include "jobcommon.selector" . | fromYaml }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "jobcommon.metadata" . | nindent 2 }}
spec:
  replicas: {{ int $values.replicas }}
  selector:
    matchLabels:
      {{- include "jobcommon.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- with merge (dict) $values.podLabels $values.commonLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- include "jobcommon.selector" . | nindent 8 }}
        app.kubernetes.io/part-of: jobcommon
      {{- with $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "jobcommon.serviceAccount" . }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      # Longer than the operator takes to finish its writes and to release the lease.
      terminationGracePeriodSeconds: 35
      {{- $pod := deepCopy $values.podSecurityContext }}
      {{- if and $secrets $pod.runAsGroup (not $pod.fsGroup) }}
      {{- $pod = set $pod "fsGroup" $pod.runAsGroup }}
      {{- end }}
      securityContext:
        {{- toYaml $pod | nindent 8 }}
      {{- with $values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- range . }}
        - {{- toYaml (merge (deepCopy .) (dict "labelSelector" (dict "matchLabels" $selector))) | nindent 10 }}
        {{- end }}
      {{- end }}
      containers:
        - name: operator
          image: {{ include "jobcommon.image" . }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          command: [jobcommon]
          args:
            {{- include "jobcommon.args" . | nindent 12 }}
          env:
            - name: POD_NAMESPACE
              valueFrom:
                fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}
            {{- with $values.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - name: metrics
              containerPort: {{ $values.metrics.port }}
            {{- if $values.progress.tlsSecret }}
            - name: progress
              containerPort: {{ $values.progress.port }}
            {{- end }}
          livenessProbe:
            httpGet: {path: /healthz, port: metrics}
            initialDelaySeconds: 10
            periodSeconds: 10
            timeoutSeconds: 5
          readinessProbe:
            httpGet: {path: /readyz, port: metrics}
            periodSeconds: 5
            timeoutSeconds: 5
          {{- if $secrets }}
          volumeMounts:
            {{- if $values.metrics.tokenSecret.name }}
            - name: metrics-token
              mountPath: /etc/jobcommon/metrics
              readOnly: true
            {{- end }}
            {{- if $values.progress.tlsSecret }}
            - name: progress-tls
              mountPath: /etc/jobcommon/progress
              readOnly: true
            {{- end }}
          {{- end }}
          resources:
            {{- toYaml $values.resources | nindent 12 }}
          securityContext:
            {{- toYaml $values.securityContext | nindent 12 }}
      {{- if $secrets }}
      # Readable by the group of fsGroup.
      volumes:
        {{- with $values.metrics.tokenSecret }}
        {{- if .name }}
        - name: metrics-token
          secret:
            secretName: {{ .name }}
            defaultMode: 0440
            items:
              - key: {{ .key }}
                path: token
        {{- end }}
        {{- end }}
        {{- with $values.progress.tlsSecret }}
        - name: progress-tls
          secret:
            secretName: {{ . }}
            defaultMode: 0440
        {{- end }}
      {{- end }}
{{- end }}

{{- define "jobcommon.networkPolicy" -}}
{{- with .Values.networkPolicy }}
{{- if .enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "jobcommon.metadata" $ | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "jobcommon.selector" $ | nindent 6 }}
  policyTypes: [Ingress{{ if .egress }}, Egress{{ end }}]
  ingress:
    - ports:
        - port: {{ $.Values.metrics.port }}
      {{- with .metricsFrom }}
      from:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- if $.Values.progress.tlsSecret }}
    # From the pods of jobs.
    - ports:
        - port: {{ $.Values.progress.port }}
      from:
        - podSelector:
            matchExpressions:
              - {key: training.kubeflow.org/job-name, operator: Exists}
          namespaceSelector:
            {{- with $.Values.watchNamespaces }}
            matchExpressions:
              - key: kubernetes.io/metadata.name
                operator: In
                values:
                  {{- toYaml . | nindent 18 }}
            {{- else }} {}
            {{- end }}
    {{- end }}
  {{- with .egress }}
  egress:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}
