{{/* Labels that never change, by which pods are found. */}}
{{- define "mooring.selector" -}}
app.kubernetes.io/name: mooring
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of everything. */}}
{{- define "mooring.labels" -}}
{{ include "mooring.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The name that clients connect to. */}}
{{- define "mooring.service" -}}
{{ .Values.service.name | default .Release.Name }}
{{- end }}

{{/* The claim in which the index is handed over. */}}
{{- define "mooring.claim" -}}
{{ .Values.handoff.volume.existingClaim | default (printf "%s-handoff" .Release.Name) }}
{{- end }}

{{/* The local volume; volumes have no namespace, so it is in the name. */}}
{{- define "mooring.volume" -}}
{{ include "mooring.claim" . }}-{{ .Release.Namespace | default "default" }}
{{- end }}

{{/* By which pods of stores are found; the Service of the master must not find them. */}}
{{- define "mooring.storeSelector" -}}
app.kubernetes.io/name: mooring-store
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
