package apiserver

// SnapshotGroup and GroupSnapshotGroup are the API groups of CSI snapshots, which a cluster has only with their CRDs.
const (
	SnapshotGroup      = "snapshot.storage.k8s.io"
	GroupSnapshotGroup = "groupsnapshot.storage.k8s.io"
)

// Builtin returns the resources every cluster has.
func Builtin() []Resource {
	v1 := []string{"v1"}
	list := []Resource{
		{Kind: "Namespace", Plural: "namespaces", Short: []string{"ns"}, Status: true, phase: "Active", label: true, fields: []string{"status.phase"}},
		{Kind: "Node", Plural: "nodes", Short: []string{"no"}, Status: true, fields: []string{"spec.unschedulable"}},
		{
			Kind: "Pod", Plural: "pods", Short: []string{"po"}, Namespaced: true, Status: true, generation: true, graceful: true, phase: "Pending",
			fields: []string{"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork", "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName"},
		},
		{Kind: "PersistentVolumeClaim", Plural: "persistentvolumeclaims", Short: []string{"pvc"}, Namespaced: true, Status: true, phase: "Pending"},
		{Kind: "PersistentVolume", Plural: "persistentvolumes", Short: []string{"pv"}, Status: true, phase: "Pending"},
		{Kind: "ConfigMap", Plural: "configmaps", Short: []string{"cm"}, Namespaced: true},
		{Kind: "Secret", Plural: "secrets", Namespaced: true, fields: []string{"type"}},
		{Kind: "Service", Plural: "services", Short: []string{"svc"}, Namespaced: true, Status: true, conditional: true, fields: []string{"spec.clusterIP", "spec.type"}},
		{Kind: "ServiceAccount", Plural: "serviceaccounts", Short: []string{"sa"}, Namespaced: true},
		{
			Kind: "ReplicationController", Plural: "replicationcontrollers", Short: []string{"rc"}, Namespaced: true, Status: true, generation: true, orphans: true,
			fields: []string{"status.replicas"},
		},
		{
			Kind: "Event", Plural: "events", Short: []string{"ev"}, Namespaced: true,
			fields: []string{
				"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion",
				"involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type",
			},
		},
		{Group: "apps", Kind: "Deployment", Plural: "deployments", Short: []string{"deploy"}, Namespaced: true, Status: true, generation: true},
		{Group: "apps", Kind: "StatefulSet", Plural: "statefulsets", Short: []string{"sts"}, Namespaced: true, Status: true, generation: true},
		{Group: "apps", Kind: "DaemonSet", Plural: "daemonsets", Short: []string{"ds"}, Namespaced: true, Status: true, generation: true},
		{Group: "apps", Kind: "ReplicaSet", Plural: "replicasets", Short: []string{"rs"}, Namespaced: true, Status: true, generation: true},
		{Group: "batch", Kind: "Job", Plural: "jobs", Namespaced: true, Status: true, generation: true, orphans: true, fields: []string{"status.successful"}},
		{Group: "batch", Kind: "CronJob", Plural: "cronjobs", Short: []string{"cj"}, Namespaced: true, Status: true, generation: true},
		{Group: "storage.k8s.io", Kind: "StorageClass", Plural: "storageclasses", Short: []string{"sc"}},
		{Group: "storage.k8s.io", Kind: "VolumeAttachment", Plural: "volumeattachments", Status: true},
		{Group: "storage.k8s.io", Kind: "CSIDriver", Plural: "csidrivers"},
		{Group: "storage.k8s.io", Kind: "CSINode", Plural: "csinodes"},
		{Group: "coordination.k8s.io", Kind: "Lease", Plural: "leases", Namespaced: true, conditional: true},
		{Group: "authorization.k8s.io", Kind: "SelfSubjectAccessReview", Plural: "selfsubjectaccessreviews", virtual: true},
		{Group: "rbac.authorization.k8s.io", Kind: "Role", Plural: "roles", Namespaced: true, rbac: true},
		{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding", Plural: "rolebindings", Namespaced: true, rbac: true},
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Plural: "clusterroles", rbac: true},
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding", Plural: "clusterrolebindings", rbac: true},
		{
			Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Plural: "customresourcedefinitions", Short: []string{"crd", "crds"},
			Status: true, generation: true, conditional: true,
		},
	}
	for i := range list {
		list[i].Versions, list[i].builtin = v1, true
	}
	return list
}

// Snapshots returns the resources of the CSI snapshot and group-snapshot CRDs.
func Snapshots() []Resource {
	v1, beta := []string{"v1"}, []string{"v1beta2", "v1beta1"}
	return []Resource{
		{Group: SnapshotGroup, Versions: v1, Kind: "VolumeSnapshot", Plural: "volumesnapshots", Short: []string{"vs"}, Namespaced: true, Status: true},
		{Group: SnapshotGroup, Versions: v1, Kind: "VolumeSnapshotContent", Plural: "volumesnapshotcontents", Short: []string{"vsc", "vscs"}, Status: true},
		{Group: SnapshotGroup, Versions: v1, Kind: "VolumeSnapshotClass", Plural: "volumesnapshotclasses", Short: []string{"vsclass", "vsclasses"}},
		{Group: GroupSnapshotGroup, Versions: beta, Kind: "VolumeGroupSnapshot", Plural: "volumegroupsnapshots", Short: []string{"vgs"}, Namespaced: true, Status: true},
		{Group: GroupSnapshotGroup, Versions: beta, Kind: "VolumeGroupSnapshotContent", Plural: "volumegroupsnapshotcontents", Short: []string{"vgsc", "vgscs"}, Status: true},
		{Group: GroupSnapshotGroup, Versions: beta, Kind: "VolumeGroupSnapshotClass", Plural: "volumegroupsnapshotclasses", Short: []string{"vgsclass", "vgsclasses"}},
	}
}
