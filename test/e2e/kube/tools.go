//go:build tools

// Package kube pins the Kubernetes control plane that the end-to-end tests run on.
package kube

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
)
