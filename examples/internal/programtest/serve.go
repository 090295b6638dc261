package programtest

import (
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/internal/apirequest"
)

// Serve serves a cluster over a socket until the test ends, counts what comes, and returns a kubeconfig for it.
func Serve(t TB, cluster *backuptest.Cluster) (served *apirequest.Counter, kubeconfig string) {
	t.Helper()
	served = &apirequest.Counter{}
	server := httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval: -1,
		Transport:     served.Wrap(cluster.RoundTripper()),
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "cluster"}) },
	})
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
	config.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatalf("%v", err)
	}
	return served, kubeconfig
}
