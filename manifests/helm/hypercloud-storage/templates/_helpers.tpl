{{/* One of the two images: (list . "coordinator"). */}}
{{- define "hypercloud-storage.image" -}}
{{- $values := (index . 0).Values.image -}}
{{- $digest := ternary $values.coordinatorDigest $values.agentDigest (eq (index . 1) "coordinator") -}}
{{- $tag := $values.tag | default (index . 0).Chart.AppVersion -}}
{{- $version := ternary (printf ":%s" $tag) (printf "@%s" $digest) (empty $digest) -}}
{{- printf "%s/%s%s" $values.repository (index . 1) $version -}}
{{- end }}

{{/* Entries of an environment, by a map of names and values. */}}
{{- define "hypercloud-storage.env" -}}
{{- range $name, $value := . }}
- name: {{ $name | quote }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- end }}

{{- define "hypercloud-storage.log-env" -}}
{{- if ne .Values.logLevel "info" }}
- name: RUST_LOG
  value: {{ .Values.logLevel | quote }}
{{- end }}
{{- end }}

{{- define "hypercloud-storage.coordinator-env" -}}
{{- include "hypercloud-storage.log-env" . }}
{{- $store := .Values.objectStore }}
{{- $env := dict }}
{{- with $store.endpoint }}{{ $_ := set $env "OBJECT_STORE_ENDPOINT" . }}{{ end }}
{{- with $store.region }}{{ $_ := set $env "OBJECT_STORE_REGION" . }}{{ end }}
{{- if kindIs "bool" $store.pathStyle }}{{ $_ := set $env "OBJECT_STORE_PATH_STYLE" $store.pathStyle }}{{ end }}
{{- with $store.secret }}{{ $_ := set $env "OBJECT_STORE_SECRET" . }}{{ end }}
{{- with $store.caConfigMap }}{{ $_ := set $env "OBJECT_STORE_CA_CONFIG_MAP" . }}{{ end }}
{{- if not .Values.storage.allowed }}{{ $_ := set $env "STORAGE" "false" }}{{ end }}
{{- include "hypercloud-storage.env" (merge (dict) .Values.coordinator.env $env) }}
{{- end }}

{{- define "hypercloud-storage.agent-env" -}}
{{- include "hypercloud-storage.log-env" . }}
{{- include "hypercloud-storage.env" .Values.agents.env }}
{{- end }}
