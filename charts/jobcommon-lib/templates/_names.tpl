{{- define "jobcommon.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "jobcommon.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "jobcommon.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "jobcommon.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "jobcommon.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "jobcommon.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name: name the account to use, or set serviceAccount.create" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "jobcommon.selector" -}}
app.kubernetes.io/name: {{ include "jobcommon.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "jobcommon.labels" -}}
{{ include "jobcommon.selector" . }}
app.kubernetes.io/part-of: jobcommon
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "jobcommon.metadata" -}}
name: {{ include "jobcommon.fullname" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "jobcommon.labels" . | nindent 2 }}
{{- end }}

{{- /* The frameworks to run, separated by blanks. */}}
{{- define "jobcommon.frameworks" -}}
{{- if .Values.framework.module }}
{{- .Values.framework.module }}
{{- else }}
{{- $known := splitList " " (index .Chart.Annotations "jobcommon/frameworks") }}
{{- range .Values.frameworks }}
{{- if not (has . $known) }}
{{- fail (printf "frameworks: %s runs %s, not %s" $.Chart.Name (join ", " $known) .) }}
{{- end }}
{{- end }}
{{- join " " (.Values.frameworks | default $known | uniq | sortAlpha) }}
{{- end }}
{{- end }}

{{- define "jobcommon.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ printf "%s@%s" .repository .digest }}{{ else }}{{ printf "%s:%s" .repository (default $.Chart.AppVersion .tag) }}{{ end }}
{{- end }}
{{- end }}

{{- define "jobcommon.operator" -}}
{{- include "jobcommon.rbac" . }}
{{- include "jobcommon.deployment" . }}
{{- include "jobcommon.networkPolicy" . }}
{{- include "jobcommon.monitoring" . }}
{{- end }}
