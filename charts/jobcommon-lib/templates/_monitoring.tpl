{{- define "jobcommon.monitoring" -}}
{{- if .Values.metrics.service.enabled }}
---
apiVersion: v1
kind: Service
metadata:
  {{- include "jobcommon.metadata" . | nindent 2 }}
spec:
  selector:
    {{- include "jobcommon.selector" . | nindent 4 }}
  ports:
    - name: metrics
      port: {{ .Values.metrics.port }}
      targetPort: metrics
{{- end }}
{{- if .Values.progress.tlsSecret }}
---
# To every replica: each accepts reports.
apiVersion: v1
kind: Service
metadata:
  name: {{ include "jobcommon.fullname" . }}-progress
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "jobcommon.labels" . | nindent 4 }}
spec:
  selector:
    {{- include "jobcommon.selector" . | nindent 4 }}
  ports:
    - name: progress
      port: {{ .Values.progress.port }}
      targetPort: progress
{{- end }}
{{- with .Values.metrics.serviceMonitor }}
{{- if .enabled }}
{{- if not $.Values.metrics.service.enabled }}
{{- fail "metrics.serviceMonitor: it selects the Service, so set metrics.service.enabled, too" }}
{{- end }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  {{- include "jobcommon.metadata" $ | nindent 2 }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "jobcommon.selector" $ | nindent 6 }}
  endpoints:
    - port: metrics
      interval: {{ .interval }}
      {{- with $.Values.metrics.tokenSecret }}
      {{- if .name }}
      authorization:
        credentials: {name: {{ .name }}, key: {{ .key }}}
      {{- end }}
      {{- end }}
{{- end }}
{{- end }}
{{- with .Values.metrics.prometheusRule }}
{{- if .enabled }}
{{- $groups := include "jobcommon.alerts" (merge (dict "launchDelaySeconds" .launchDelaySeconds "restartsPerHour" .restartsPerHour) $) | fromYamlArray }}
{{- if .runbookUrl }}
{{- range $group := $groups }}
{{- range $group.rules }}
{{- $_ := set .annotations "runbook_url" (printf "%s#%s" $.Values.metrics.prometheusRule.runbookUrl (lower .alert)) }}
{{- end }}
{{- end }}
{{- end }}
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  {{- include "jobcommon.metadata" $ | nindent 2 }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  groups:
    {{- toYaml $groups | nindent 4 }}
{{- end }}
{{- end }}
{{- with .Values.metrics.grafanaDashboard }}
{{- if .enabled }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "jobcommon.fullname" $ }}-grafana
  namespace: {{ $.Release.Namespace }}
  labels:
    {{- include "jobcommon.labels" $ | nindent 4 }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
data:
  training-operators.json: |
    {{- include "jobcommon.grafana" $ | nindent 4 }}
{{- end }}
{{- end }}
{{- if .Values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "jobcommon.metadata" . | nindent 2 }}
spec:
  maxUnavailable: {{ .Values.podDisruptionBudget.maxUnavailable }}
  selector:
    matchLabels:
      {{- include "jobcommon.selector" . | nindent 6 }}
{{- end }}
{{- end }}
