{{- /* What the operator reads beyond the namespaces of the jobs. */}}
{{- define "jobcommon.clusterRules" -}}
{{- if .Values.framework.module }}
{{- with .Values.framework.cluster }}
{{ toYaml . }}
{{- end }}
{{- else }}
{{- range splitList " " (include "jobcommon.frameworks" .) }}
{{- include (printf "jobcommon.rules.cluster.%s" .) $ }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What the operator may do in the namespaces of the jobs. */}}
{{- define "jobcommon.rules" -}}
{{- include "jobcommon.rules.shared" . }}
{{- if .Values.framework.module }}
{{ toYaml .Values.framework.rules }}
{{- else }}
{{- range splitList " " (include "jobcommon.frameworks" .) }}
{{- include (printf "jobcommon.rules.%s" (ternary "mpi-exec" . (and (eq . "mpi") $.Values.mpiExec))) $ }}
{{- end }}
{{- end }}
{{- with .Values.gangScheduler }}
{{- if or (eq . "auto") (eq (lower .) "volcano") }}
{{- include "jobcommon.rules.gang.volcano" $ }}
{{- end }}
{{- if or (eq . "auto") (eq (lower .) "kubernetes") }}
{{- include "jobcommon.rules.gang.kubernetes" $ }}
{{- end }}
{{- if not (has (lower .) (list "volcano" "kubernetes")) }}
{{- include "jobcommon.rules.gang.coscheduling" $ }}
{{- end }}
{{- if not $.Values.watchNamespaces }}
{{- include "jobcommon.rules.gang.priorities" $ }}
{{- end }}
{{- end }}
{{- if .Values.kueue }}
{{- include "jobcommon.rules.kueue" . }}
{{- if not .Values.watchNamespaces }}
{{- include "jobcommon.rules.kueue.cluster" . }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What Kueue's own role lacks of the chart's kinds. */}}
{{- define "jobcommon.kueueReads" -}}
{{- if .Values.framework.module }}
{{- with .Values.framework.kueue }}
{{- toYaml . }}
{{- end }}
{{- else }}
{{- range splitList " " (include "jobcommon.frameworks" .) }}
{{- include (printf "jobcommon.rules.kueue-reads.%s" .) $ }}
{{- end }}
{{- end }}
{{- end }}

{{- define "jobcommon.bound" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "jobcommon.serviceAccount" . }}
    namespace: {{ .Release.Namespace }}
{{- end }}

{{- define "jobcommon.rbac" -}}
{{- $name := include "jobcommon.fullname" . }}
{{- $cluster := ternary "" "Cluster" (not (empty .Values.watchNamespaces)) }}
{{- if .Values.serviceAccount.create }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "jobcommon.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "jobcommon.labels" . | nindent 4 }}
  {{- with .Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}
{{- if .Values.rbac.create }}
{{- range .Values.watchNamespaces | default (list "") }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $cluster }}Role
metadata:
  name: {{ $name }}
  {{- with . }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "jobcommon.labels" $ | nindent 4 }}
rules:
  {{- include "jobcommon.rules" $ | trim | nindent 2 }}
  {{- if not $.Values.watchNamespaces }}
  {{- with include "jobcommon.clusterRules" $ | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $cluster }}RoleBinding
metadata:
  name: {{ $name }}
  {{- with . }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "jobcommon.labels" $ | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $cluster }}Role
  name: {{ $name }}
{{ include "jobcommon.bound" $ }}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}-leader
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "jobcommon.labels" . | nindent 4 }}
rules:
  {{- include "jobcommon.rules.leader" $name | trim | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}-leader
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "jobcommon.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}-leader
{{ include "jobcommon.bound" . }}
{{- $wide := include "jobcommon.clusterRules" . | trim }}
{{- if and .Values.watchNamespaces $wide }}
---
# Objects without a namespace that jobs refer to, and the lease of another controller of the kind.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}-cluster
  labels:
    {{- include "jobcommon.labels" . | nindent 4 }}
rules:
  {{- $wide | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}-cluster
  labels:
    {{- include "jobcommon.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}-cluster
{{ include "jobcommon.bound" . }}
{{- end }}
{{- if and .Values.watchNamespaces .Values.kueue }}
---
# Flavors, priority classes and Kueue's configuration are outside the namespace.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}-kueue
  labels:
    {{- include "jobcommon.labels" . | nindent 4 }}
rules:
  {{- include "jobcommon.rules.kueue.cluster" . | trim | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}-kueue
  labels:
    {{- include "jobcommon.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}-kueue
{{ include "jobcommon.bound" . }}
{{- end }}
{{- $reads := include "jobcommon.kueueReads" . }}
{{- if and $reads .Values.kueueServiceAccount.name (or (not .Values.watchNamespaces) (eq .Values.kueue "own")) }}
---
# For Kueue itself: its webhook for pods reads their owners, and its own role has no right to these kinds.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}-kueue-reads
  labels:
    {{- include "jobcommon.labels" . | nindent 4 }}
rules:
  {{- $reads | trim | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}-kueue-reads
  labels:
    {{- include "jobcommon.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}-kueue-reads
subjects:
  - kind: ServiceAccount
    name: {{ .Values.kueueServiceAccount.name }}
    namespace: {{ .Values.kueueServiceAccount.namespace }}
{{- end }}
{{- if .Values.rbac.aggregate }}
{{- range $namespace := .Values.watchNamespaces | default (list "") }}
{{- range $who := list "view" "edit" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $cluster }}Role
metadata:
  name: {{ $name }}-{{ $who }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "jobcommon.labels" $ | nindent 4 }}
    {{- if not $namespace }}
    rbac.authorization.k8s.io/aggregate-to-{{ $who }}: "true"
    rbac.authorization.kubeflow.org/aggregate-to-kubeflow-{{ $who }}: "true"
    {{- if eq $who "edit" }}
    rbac.authorization.k8s.io/aggregate-to-admin: "true"
    rbac.authorization.kubeflow.org/aggregate-to-kubeflow-admin: "true"
    {{- end }}
    {{- end }}
rules:
  {{- if $.Values.framework.module }}
  {{- toYaml (index $.Values.framework $who) | nindent 2 }}
  {{- else }}
  {{- range splitList " " (include "jobcommon.frameworks" $) }}
  {{- include (printf "jobcommon.rules.%s.%s" $who .) $ | trim | nindent 2 }}
  {{- end }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
