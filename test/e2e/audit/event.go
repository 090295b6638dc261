package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sheetanchor/sheetanchor/internal/apirequest"
)

// The stages of a request that have an entry.
const (
	stageReceived = "RequestReceived"
	stageStarted  = "ResponseStarted"
	stageComplete = "ResponseComplete"
	stagePanic    = "Panic"
)

// Event is one request.
type Event struct {
	// Info is what the request asked for, and its User. The Name of an object that was created is known too, unless the
	// server made it up.
	apirequest.Info
	// ID is the audit ID.
	ID string
	// Code is the HTTP status of the answer, 0 as long as there is none.
	Code int
	// Agent is what the client calls itself.
	Agent string
	// Received is when the server received the request.
	Received time.Time
	// Ended is when the whole answer was sent. It is zero for a request that is open, such as a watch.
	Ended time.Time
}

// IsWatch reports whether the request is a watch.
func (e Event) IsWatch() bool { return e.Verb == apirequest.VerbWatch }

// IsDiscovery reports whether the request names no resource: discovery, /version, /openapi, /healthz.
func (e Event) IsDiscovery() bool { return !e.IsResource() }

// String is the request in one line, for messages: "create app/volumesnapshots/db: 201".
func (e Event) String() string {
	what := e.Path
	if e.IsResource() {
		what = strings.Trim(e.Namespace+"/"+e.ResourcePath()+"/"+e.Name, "/")
	}
	return fmt.Sprintf("%s %s: %d", e.Verb, what, e.Code)
}

// entry is the part of an audit event that is read.
type entry struct {
	AuditID    string `json:"auditID"`
	Stage      string `json:"stage"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	UserAgent string `json:"userAgent"`
	ObjectRef *struct {
		Name string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus *struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Received time.Time `json:"requestReceivedTimestamp"`
	Staged   time.Time `json:"stageTimestamp"`
}

// parse reads one line.
func parse(line []byte) (entry, error) {
	var e entry
	if err := json.Unmarshal(line, &e); err != nil {
		return entry{}, err
	}
	switch e.Stage {
	case stageReceived, stageStarted, stageComplete, stagePanic:
	default:
		return entry{}, fmt.Errorf("stage: %q: no such stage", e.Stage)
	}
	if e.AuditID == "" {
		return entry{}, errors.New("auditID: must not be empty")
	}
	return e, nil
}

// event is what the entry says of its request.
func (e entry) event() Event {
	out := Event{Info: e.info(), ID: e.AuditID, Agent: e.UserAgent, Received: e.Received}
	out.User = e.User.Username
	return e.onto(out)
}

// onto adds what a later entry says of the same request.
func (e entry) onto(out Event) Event {
	if e.ResponseStatus != nil {
		out.Code = e.ResponseStatus.Code
	}
	if ref := e.ObjectRef; ref != nil && out.Name == "" {
		out.Name = ref.Name
	}
	if e.Stage == stageComplete || e.Stage == stagePanic {
		out.Ended = e.Staged
	}
	return out
}

// info classifies the request as a client's transport would.
func (e entry) info() apirequest.Info {
	u, err := url.ParseRequestURI(e.RequestURI)
	if err != nil {
		u = &url.URL{Path: e.RequestURI}
	}
	return apirequest.Parse(&http.Request{Method: method(e.Verb), URL: u})
}

// method is the HTTP method behind a verb. Where no resource is named, the verb is the method in lower case.
func method(verb string) string {
	switch verb {
	case apirequest.VerbGet, apirequest.VerbList, apirequest.VerbWatch:
		return http.MethodGet
	case apirequest.VerbCreate:
		return http.MethodPost
	case apirequest.VerbUpdate:
		return http.MethodPut
	case apirequest.VerbDeleteCollection:
		return http.MethodDelete
	default:
		return strings.ToUpper(verb)
	}
}
