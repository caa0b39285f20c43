{{/* What `config` and `policies` come to, and what they need. Nothing here makes an object. */}}

{{/* YAML 1.1 reads the words on and off as booleans; the engine wants the words. (map, keys) -> changes the map */}}
{{- define "moonfence.words" -}}
{{- $map := .map -}}
{{- range $key := .keys -}}
{{- if kindIs "bool" (get $map $key) }}{{ $_ := set $map $key (ternary "on" "off" (get $map $key)) }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* The engine's configuration, as JSON. */}}
{{- define "moonfence.config" -}}
{{- include "moonfence.normal" (deepCopy .Values.config) -}}
{{- end -}}

{{/* A configuration -> the same as JSON, in words of its own, so that two can be compared. */}}
{{- define "moonfence.normal" -}}
{{- $config := mergeOverwrite (dict "api" 1) . -}}
{{- $words := list "detection" "failPods" "incidentObjects" "publishEvidence" "quarantine" "release" "remediation" "silentTaint" -}}
{{- include "moonfence.words" (dict "map" $config "keys" $words) -}}
{{- $limits := list "maxDown" "maxAtOnce" "maxPerWindow" "minDown" -}}
{{- with $config.brake -}}
{{- include "moonfence.words" (dict "map" . "keys" $limits) -}}
{{- with .zone }}{{ include "moonfence.words" (dict "map" . "keys" $limits) }}{{ end -}}
{{- end -}}
{{- toJson $config -}}
{{- end -}}

{{/* The data of ConfigMap moonfence-config, as YAML. */}}
{{- define "moonfence.configData" -}}
{{- $text := include "moonfence.config" . | fromJson | toYaml -}}
{{- mergeOverwrite (deepCopy .Values.configFiles) (dict "config.yaml" (printf "%s\n" $text)) | toYaml -}}
{{- end -}}

{{/* The bindings, as JSON: {bindings: […]}. */}}
{{- define "moonfence.bindings" -}}
{{- $bindings := deepCopy .Values.policies.bindings -}}
{{- range $bindings }}{{ include "moonfence.words" (dict "map" . "keys" (list "mode" "actOn")) }}{{ end -}}
{{- dict "bindings" $bindings | toJson -}}
{{- end -}}

{{/* The namespaces of fencer fence-agents-remediation, as JSON: {namespaces: […]}. */}}
{{- define "moonfence.farNamespaces" -}}
{{- $found := list -}}
{{- range .fencers -}}
{{- if and (eq .fencer "fence-agents-remediation") (not .file) -}}
{{- $space := dig "settings" "namespace" "fence-agents-remediation" . -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" (toString $space)) -}}
{{- fail (printf "config.fencers: fence-agents-remediation: its setting namespace is %q, which is no name of one." (toString $space)) -}}
{{- end -}}
{{- $found = append $found (toString $space) -}}
{{- end -}}
{{- end -}}
{{- dict "namespaces" (uniq $found) | toJson -}}
{{- end -}}

{{/* "yes" where something would taint nodes. */}}
{{- define "moonfence.taints" -}}
{{- $config := include "moonfence.config" . | fromJson -}}
{{- $taints := or (has $config.quarantine (list "missing" "always")) (eq "on" (toString $config.silentTaint)) -}}
{{- range .Values.policies.bindings -}}
{{- if has "out-of-service" (default list .allow) }}{{ $taints = true }}{{ end -}}
{{- end -}}
{{- if $taints }}yes{{ end -}}
{{- end -}}

{{/* What holds all bindings below enforce, in words; "" where nothing does. */}}
{{- define "moonfence.ceiling" -}}
{{- $policies := dict "mode" .Values.policies.mode -}}
{{- include "moonfence.words" (dict "map" $policies "keys" (list "mode")) -}}
{{- $key := dig "data" "mode" "" (lookup "v1" "ConfigMap" .Release.Namespace "moonfence-policies") | trim -}}
{{- if has $key (list "observe" "off") -}}
the key mode of ConfigMap moonfence-policies is {{ $key }}
{{- else if has $policies.mode (list "observe" "off") -}}
policies.mode is {{ $policies.mode }}
{{- end -}}
{{- end -}}

{{/* {right: whether it is needed}, as JSON. Writing is needed by what may enforce alone. */}}
{{- define "moonfence.needs" -}}
{{- $config := include "moonfence.config" . | fromJson -}}
{{- $acts := eq .Values.mode "enforce" -}}
{{- $fencers := list -}}
{{- $isolates := false -}}
{{- range $config.fencers -}}
{{- if not .file }}{{ $fencers = append $fencers .fencer }}{{ end -}}
{{- if .isolate }}{{ $isolates = true }}{{ end -}}
{{- end -}}
{{- $fences := regexMatch "csiaddons\\.openshift\\.io/[^/ ]+/networkfences" (join " " $config.allowedWrites) -}}
{{- dict
  "taint" (and $acts (eq "yes" (include "moonfence.taints" .)))
  "kubelet" false
  "release" (and $acts (eq "on" (toString $config.release)))
  "failPods" (and $acts (eq "on" (toString $config.failPods)))
  "attest" false
  "networkFence" (has "network-fence" $fencers)
  "isolate" (and $acts $isolates $fences)
  "metal3" (has "metal3" $fencers)
  "fenceAgentsRemediation" (has "fence-agents-remediation" $fencers)
  "publishEvidence" (eq "on" (toString $config.publishEvidence))
  "incidents" (eq "on" (toString $config.incidentObjects))
  "remediation" (eq "nodeHealthCheck" (toString $config.remediation))
  "serving" .Values.secureServing.enabled
  "reads" (not (empty $config.allowedReads)) | toJson -}}
{{- end -}}

{{/* {right: whether it is given}, as JSON. */}}
{{- define "moonfence.rights" -}}
{{- $given := dict -}}
{{- range $right, $needed := include "moonfence.needs" . | fromJson -}}
{{- $wanted := get $.Values.rights $right -}}
{{- $_ := set $given $right (ternary $needed (eq "true" (toString $wanted)) (eq "auto" (toString $wanted))) -}}
{{- end -}}
{{- toJson $given -}}
{{- end -}}

{{/* "yes" where the API server's admission policies go along: with all that they keep in bounds. */}}
{{- define "moonfence.admission" -}}
{{- $rights := include "moonfence.rights" . | fromJson -}}
{{- if and .Values.admissionPolicies (or (eq "always" (toString .Values.admissionPolicies)) (eq .Values.mode "enforce") $rights.taint $rights.release $rights.failPods) }}yes{{ end -}}
{{- end -}}
