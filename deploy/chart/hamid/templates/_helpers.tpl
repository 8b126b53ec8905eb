{{- define "hamid.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* labels DICT(root, component): of an object */ -}}
{{- define "hamid.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{ include "hamid.selector" . }}
{{- with .root.Values.global.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "hamid.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "hamid.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- include "hamid.imageName" (list (.Values.global.imageRegistry | default .Values.image.registry) .Values.image.repository $tag) -}}
{{- end -}}

{{- /* the cluster's version by default, without a vendor's suffix: those are not in the registry */ -}}
{{- define "hamid.kubeSchedulerImage" -}}
{{- $own := .Values.scheduler.kubeScheduler -}}
{{- $version := semver .Capabilities.KubeVersion.Version -}}
{{- $tag := $own.imageTag | default $own.image.tag | default (printf "v%d.%d.%d" $version.Major $version.Minor $version.Patch) -}}
{{- include "hamid.imageName" (list (.Values.global.imageRegistry | default $own.image.registry) $own.image.repository $tag) -}}
{{- end -}}

{{- define "hamid.imageName" -}}
{{- $parts := list (index . 1) -}}
{{- with index . 0 }}{{ $parts = prepend $parts . }}{{ end -}}
{{ join "/" $parts }}:{{ index . 2 }}
{{- end -}}

{{- define "hamid.serviceAccountUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "hamid.fullname" . }}
{{- end -}}

{{- /* the names of what the daemon keeps in the release's namespace */ -}}
{{- define "hamid.names" -}}
lease: {{ include "hamid.fullname" . }}
extender: {{ include "hamid.fullname" . }}-scheduler
webhook: {{ include "hamid.fullname" . }}-webhook
tls: {{ include "hamid.fullname" . }}-tls
schedulerClient: {{ include "hamid.fullname" . }}-scheduler-client
{{- end -}}

{{- define "hamid.resources" -}}
{{- $values := .Values -}}
{{- list $values.resourceName $values.resourceMem $values.resourceMemPercentage $values.resourceCores $values.resourcePriority | toJson -}}
{{- end -}}

{{- /* all of those but the count: a kubelet states that itself */ -}}
{{- define "hamid.amounts" -}}
['{{ rest (fromJsonArray (include "hamid.resources" .)) | join "', '" }}']
{{- end -}}

{{- /* what the API server can do, by version: a vendor's suffix does not matter */ -}}
{{- define "hamid.since" -}}
{{- if semverCompare (printf ">=%s.0-0" (index . 1)) (index . 0).Capabilities.KubeVersion.Version }}yes{{ end -}}
{{- end -}}

{{- define "hamid.hasMatchConditions" -}}
{{- include "hamid.since" (list . "1.28") -}}
{{- end -}}

{{- define "hamid.hasAdmissionPolicies" -}}
{{- $versions := .Capabilities.APIVersions -}}
{{- $is_rendered_offline := not ($versions.Has "v1/Pod") -}}
{{- $is_served := $versions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" -}}
{{- if and (include "hamid.since" (list . "1.30")) (or $is_served $is_rendered_offline) }}yes{{ end -}}
{{- end -}}

{{- /* the container's, for DICT(user) */ -}}
{{- define "hamid.securityContext" -}}
runAsUser: {{ .user }}
runAsGroup: {{ .user }}
{{- if .user }}
runAsNonRoot: true
{{- end }}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}
