//go:build tools

// Package main keeps the helm that build.sh builds in go.mod. It has a module of
// its own, so that another helm does not mean another Kubernetes.
package main

import _ "helm.sh/helm/v3/cmd/helm"
