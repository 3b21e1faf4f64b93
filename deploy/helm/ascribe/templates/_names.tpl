{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{/* Another configuration has another name, and so makes new pods. */}}
{{- define "ascribe.config" -}}
ascribe-{{ .Values.config | sha256sum | trunc 10 }}
{{- end }}
{{- define "ascribe.image" -}}
{{ .Values.image.repository }}{{ with .Values.image.tag }}:{{ . }}{{ end }}
{{- end }}
