package driver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// maxControlBody is what a request to the control endpoint may have, in bytes.
const maxControlBody = 1 << 20

// controlHandler serves what the [Client] asks for, as JSON.
func (s *service) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, struct{}{}) })
	mux.HandleFunc("GET /rules", func(w http.ResponseWriter, _ *http.Request) { answer(w, orEmpty(s.store.get().Rules)) })
	mux.HandleFunc("PUT /rules", s.putRule)
	mux.HandleFunc("DELETE /rules", s.deleteRules)
	mux.HandleFunc("GET /limits", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.store.get().Limits) })
	mux.HandleFunc("PUT /limits/{method}", s.putLimit)
	mux.HandleFunc("DELETE /limits/{method}", s.deleteLimit)
	mux.HandleFunc("GET /volumes", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.volumes()) })
	mux.HandleFunc("GET /snapshots", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.snapshots()) })
	mux.HandleFunc("GET /groups", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.groups()) })
	mux.HandleFunc("GET /calls", s.getCalls)
	mux.HandleFunc("GET /counts", func(w http.ResponseWriter, _ *http.Request) {
		calls, _ := s.journal.all()
		answer(w, countsOf(calls))
	})
	mux.HandleFunc("GET /cuts", func(w http.ResponseWriter, r *http.Request) {
		held := s.storage.Snapshots() // before the calls: what is deleted meanwhile is then in one of the two
		calls, _ := s.journal.all()
		pattern := r.URL.Query().Get("claim")
		cuts := slices.DeleteFunc(cutsOf(calls, held), func(c Cut) bool { return pattern != "" && !matches(pattern, c.Claim) })
		answer(w, orEmpty(cuts))
	})
	return mux
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// answer writes a value. An error of it is the reader's, who is gone.
func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

// refuse writes the text of an error.
func refuse(w http.ResponseWriter, code int, err error) { http.Error(w, err.Error(), code) }

// decode reads a JSON body without unknown fields, or refuses it.
func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxControlBody))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("body: %w", err))
		return false
	}
	return true
}

// edit changes the state and answers.
func (s *service) edit(w http.ResponseWriter, edit func(*state)) {
	err := s.store.change(func(st *state) error {
		edit(st)
		return nil
	})
	if err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	answer(w, struct{}{})
}

func (s *service) putRule(w http.ResponseWriter, r *http.Request) {
	var rule Rule
	if !decode(w, r, &rule) {
		return
	}
	if err := rule.validate(); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	s.edit(w, func(st *state) { st.Rules = withRule(st.Rules, rule) })
}

// deleteRules deletes the rules whose patterns are in the query, all without any.
func (s *service) deleteRules(w http.ResponseWriter, r *http.Request) {
	patterns := r.URL.Query()["pattern"]
	s.edit(w, func(st *state) {
		if len(patterns) == 0 {
			st.Rules = nil
		}
		st.Rules = withoutRules(st.Rules, patterns...)
	})
}

func (s *service) putLimit(w http.ResponseWriter, r *http.Request) {
	var limit Limit
	method := r.PathValue("method")
	if !decode(w, r, &limit) {
		return
	}
	err := validMethod(method)
	if err == nil {
		err = limit.validate()
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	s.edit(w, func(st *state) {
		st.Limits[method] = limit
		s.limits.set(method, limit)
	})
}

func (s *service) deleteLimit(w http.ResponseWriter, r *http.Request) {
	method := r.PathValue("method")
	if err := validMethod(method); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	s.edit(w, func(st *state) {
		delete(st.Limits, method)
		s.limits.remove(method)
	})
}

// getCalls answers the calls that match the filter of the query, when there are at least "min" of them.
func (s *service) getCalls(w http.ResponseWriter, r *http.Request) {
	filter, least, err := filterOf(r.URL.Query())
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	for {
		calls, changed := s.journal.all()
		calls = slices.DeleteFunc(calls, func(c Call) bool { return !filter.match(c) })
		if len(calls) >= least {
			answer(w, orEmpty(calls))
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			refuse(w, http.StatusServiceUnavailable, fmt.Errorf("%d of %d calls when the driver ended", len(calls), least))
			return
		}
	}
}

func filterOf(q url.Values) (CallFilter, int, error) {
	f := CallFilter{Method: q.Get("method"), Claim: q.Get("claim"), Name: q.Get("name"), Code: q.Get("code"), Answered: q.Get("answered") == "true"}
	var err error
	least := 0
	if text := q.Get("after"); text != "" {
		if f.After, err = strconv.Atoi(text); err != nil {
			return f, 0, fmt.Errorf("after: %w", err)
		}
	}
	if text := q.Get("min"); text != "" {
		if least, err = strconv.Atoi(text); err != nil {
			return f, 0, fmt.Errorf("min: %w", err)
		}
	}
	return f, least, nil
}
