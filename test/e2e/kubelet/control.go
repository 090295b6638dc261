package kubelet

import (
	"encoding/json"
	"net/http"

	"github.com/go-logr/logr"
)

// The paths of the control server.
const (
	pathHealth  = "/healthz"
	pathScripts = "/scripts"
	pathExecs   = "/execs"
)

// maxScript bounds the size of a script.
const maxScript = 1 << 20

func (s *Server) controlMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathHealth, func(w http.ResponseWriter, req *http.Request) {
		select {
		case <-s.pods.table.synced:
			answer(w, req, "ok")
		default:
			http.Error(w, "the node's pods are not known yet", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET "+pathExecs, func(w http.ResponseWriter, req *http.Request) { answer(w, req, s.record.all()) })
	mux.HandleFunc("GET "+pathScripts, func(w http.ResponseWriter, req *http.Request) { answer(w, req, s.scripts.all()) })
	mux.HandleFunc("DELETE "+pathScripts, func(_ http.ResponseWriter, req *http.Request) {
		s.scripts.clear(req.URL.Query().Get("pattern"))
	})
	mux.HandleFunc("POST "+pathScripts, func(w http.ResponseWriter, req *http.Request) {
		var script Script
		decoder := json.NewDecoder(http.MaxBytesReader(w, req.Body, maxScript))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&script)
		if err == nil {
			err = script.Validate()
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.scripts.add(script)
	})
	return mux
}

func answer(w http.ResponseWriter, req *http.Request, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		logr.FromContextOrDiscard(req.Context()).V(1).Info("answer is lost", "path", req.URL.Path, "error", err.Error())
	}
}
