package kubelet_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/sheetanchor/sheetanchor/test/e2e/kubelet"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		change func(t *testing.T, o *kubelet.Options)
		want   []string
	}{
		"nothing": {
			reason: "every missing field is named at once",
			change: func(_ *testing.T, o *kubelet.Options) { *o = kubelet.Options{} },
			want: []string{
				"Config: must not be empty", "Node: must not be empty", "Listen: must not be empty", "CertFile: must not be empty",
				"KeyFile: must not be empty", "ClientCAFile: must not be empty", "RecordFile: must not be empty", `Control: "" is not unix:///absolute/path`,
			},
		},
		"a relative socket": {
			reason: "the socket's path is absolute",
			change: func(_ *testing.T, o *kubelet.Options) { o.Control = "unix://control" },
			want:   []string{`Control: "unix://control"`},
		},
		"a key of another certificate": {
			reason: "the pair must fit",
			change: func(_ *testing.T, o *kubelet.Options) { o.KeyFile = strings.Replace(o.KeyFile, "server", "client", 1) },
			want:   []string{"CertFile, KeyFile:"},
		},
		"a missing CA": {
			reason: "without it nobody could be let in",
			change: func(_ *testing.T, o *kubelet.Options) { o.ClientCAFile += "x" },
			want:   []string{"ClientCAFile:"},
		},
		"a CA file without a certificate": {
			reason: "without one nobody could be let in",
			change: func(_ *testing.T, o *kubelet.Options) { o.ClientCAFile = o.KeyFile },
			want:   []string{"ClientCAFile:", "no certificate in it"},
		},
		"a wrong config": {
			reason: "no client can be made of it",
			change: func(_ *testing.T, o *kubelet.Options) { o.Config = &rest.Config{Host: "http://x:y:z"} },
			want:   []string{"Config:"},
		},
		"a taken address": {
			reason: "the error is the listener's",
			change: func(_ *testing.T, o *kubelet.Options) { o.Listen = "192.0.2.1:1" },
			want:   []string{"start kubelet:", "192.0.2.1:1"},
		},
		"a record that is none": {
			reason: "a record of something else is not gone on with",
			change: func(t *testing.T, o *kubelet.Options) {
				t.Helper()
				if err := os.WriteFile(o.RecordFile, []byte("{}\nhalf"), 0o600); err != nil {
					t.Fatal(err)
				}
			},
			want: []string{"open exec record", "line 1: id: 0"},
		},
		"a socket of a living process": {
			reason: "it may be another kubelet's",
			change: func(t *testing.T, o *kubelet.Options) {
				t.Helper()
				l, err := net.Listen("unix", strings.TrimPrefix(o.Control, "unix://"))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = l.Close() })
			},
			want: []string{"start kubelet:", "somebody listens there"},
		},
		"a socket with a long path": {
			reason: "the kernel does not take it",
			change: func(_ *testing.T, o *kubelet.Options) { o.Control += strings.Repeat("x", 107) },
			want:   []string{"Control:", "longer than 107 bytes"},
		},
		"a socket nowhere": {
			reason: "the folder must be there",
			change: func(_ *testing.T, o *kubelet.Options) { o.Control += "/x" },
			want:   []string{"start kubelet:", "/x"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, _ := newOptions(t, &rest.Config{Host: "http://127.0.0.1:1"})
			tc.change(t, &opts)
			server, err := kubelet.New(t.Context(), opts)
			if err == nil {
				_ = server.Close()
				t.Fatalf("%s: New succeeded", tc.reason)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: New = %v, want an error with %q", tc.reason, err, want)
				}
			}
		})
	}
}

// A server that is not run gives its addresses back.
func TestClose(t *testing.T) {
	t.Parallel()
	opts, _ := newOptions(t, &rest.Config{Host: "http://127.0.0.1:1"})
	for range 2 {
		server, err := kubelet.New(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		opts.Listen = server.Addr().String()
		if err := server.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
	if _, err := os.Stat(filepath.Clean(strings.TrimPrefix(opts.Control, "unix://"))); !os.IsNotExist(err) {
		t.Errorf("the control socket is still there: %v", err)
	}
}
