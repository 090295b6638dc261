package stack

import (
	"fmt"

	"github.com/sheetanchor/sheetanchor/test/e2e/internal/unixsocket"
)

// fast lifts a client's limit of requests for what only sets the stage: the limits of snapshot-controller and
// csi-snapshotter stay as they are by default.
var fast = [...]string{"--kube-api-qps=200", "--kube-api-burst=400"}

func etcdArgs(l layout) []string {
	client, peer := "http://"+l.address(Etcd), "http://"+l.address(etcdPeer)
	args := []string{
		"--name=e2e", "--data-dir=" + l.path("etcd"), "--log-level=warn",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=e2e=" + peer,
	}
	if !l.Fsync {
		args = append(args, "--unsafe-no-fsync")
	}
	return args
}

func apiServerArgs(l layout) []string {
	return []string{
		"--etcd-servers=http://" + l.address(Etcd),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", l.Ports[APIServer]),
		"--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24",
		"--cert-dir=" + l.path("run"),
		"--tls-cert-file=" + l.key(servingCert), "--tls-private-key-file=" + l.key(servingKey),
		"--client-ca-file=" + l.key(caCert), "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + l.key(tokenKey), "--service-account-signing-key-file=" + l.key(tokenKey),
		// No controller makes the service accounts that this plugin wants every pod to have.
		"--disable-admission-plugins=ServiceAccount",
		"--kubelet-certificate-authority=" + l.key(caCert),
		"--kubelet-client-certificate=" + l.key(kubeletCert), "--kubelet-client-key=" + l.key(kubeletKey),
		"--kubelet-preferred-address-types=InternalIP",
		"--audit-policy-file=" + l.path(auditPolicy), "--audit-log-path=" + l.path(auditLog),
		"--audit-log-maxsize=100000", // megabytes: the log is never rotated
		// Without it the server waits for the end of its clients' watches when it should end, for half a minute.
		"--shutdown-watch-termination-grace-period=1s",
		"--profiling=false",
	}
}

func controllerManagerArgs(l layout) []string {
	return append([]string{
		"--kubeconfig=" + l.kubeconfig(ControllerManager),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", l.Ports[ControllerManager]),
		"--tls-cert-file=" + l.key(servingCert), "--tls-private-key-file=" + l.key(servingKey),
		"--leader-elect=false", "--profiling=false",
		"--controllers=persistentvolume-binder-controller,persistentvolumeclaim-protection-controller," +
			"persistentvolume-protection-controller,namespace-controller,garbage-collector-controller",
	}, fast[:]...)
}

func snapshotControllerArgs(l layout) []string {
	return []string{"--kubeconfig=" + l.kubeconfig(SnapshotController), "--http-endpoint=" + l.address(SnapshotController)}
}

func snapshotterArgs(l layout) []string {
	return []string{
		"--kubeconfig=" + l.kubeconfig(Snapshotter), "--http-endpoint=" + l.address(Snapshotter),
		"--csi-address=" + l.path(csiSocket), "--extra-create-metadata",
	}
}

func provisionerArgs(l layout) []string {
	return append([]string{
		"--kubeconfig=" + l.kubeconfig(Provisioner), "--http-endpoint=" + l.address(Provisioner),
		"--csi-address=" + l.path(csiSocket), "--extra-create-metadata",
	}, fast[:]...)
}

func driverArgs(l layout) []string {
	return []string{
		"-name=" + DriverName, "-endpoint=" + unixsocket.Scheme + l.path(csiSocket), "-control=" + unixsocket.Scheme + l.path(driverSocket),
		"-state=" + l.path("driver.json"),
	}
}

func kubeletArgs(l layout) []string {
	return []string{
		"-kubeconfig=" + l.kubeconfig(Kubelet), "-node=" + NodeName, "-listen=" + l.address(Kubelet),
		"-cert=" + l.key(servingCert), "-key=" + l.key(servingKey), "-client-ca=" + l.key(caCert),
		"-record=" + l.path(kubeletRecord), "-control=" + unixsocket.Scheme + l.path(kubeletSocket),
	}
}
