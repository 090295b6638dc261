package backuptest

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/sheetanchor/sheetanchor/internal/apirequest"
)

// staleAnswers are the first answers to reads, by user, form and URL.
type staleAnswers struct {
	mu      sync.Mutex
	answers map[string]staleAnswer // guarded by mu
}

type staleAnswer struct {
	http.Response

	body []byte
}

// roundTrip answers as it first did.
func (s *staleAnswers) roundTrip(next http.RoundTripper, req *http.Request, info apirequest.Info) (*http.Response, error) {
	if info.Verb != apirequest.VerbGet && info.Verb != apirequest.VerbList {
		return next.RoundTrip(req)
	}
	form := "" // clients ask for the object itself in many ways
	if accept := req.Header.Get("Accept"); strings.Contains(accept, "as=") {
		form = accept
	}
	key := strings.Join([]string{info.User, form, req.URL.String()}, " ")
	s.mu.Lock()
	first, found := s.answers[key]
	s.mu.Unlock()
	if !found {
		resp, err := next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		first.Response = *resp
		if first.body, err = io.ReadAll(resp.Body); err != nil {
			return nil, err
		}
		s.mu.Lock()
		if s.answers == nil {
			s.answers = map[string]staleAnswer{}
		}
		s.answers[key] = first
		s.mu.Unlock()
	}
	closeBody(req)
	resp := first.Response
	resp.Header = first.Header.Clone()
	resp.Request, resp.Body = req, io.NopCloser(bytes.NewReader(first.body))
	return &resp, nil
}
