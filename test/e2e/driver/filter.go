package driver

import (
	"net/url"
	"strconv"
)

// CallFilter chooses calls. The zero value chooses all; every field that is set must match.
type CallFilter struct {
	Method   string // such as "CreateSnapshot"
	Claim    string // a pattern as that of a [Rule]
	Name     string // the name of the snapshot, volume or group
	Code     string // the name of a gRPC code, or [Unanswered]
	Answered bool   // leaves out calls that are under way
	After    int    // leaves out calls up to this Seq
}

func (f CallFilter) match(c Call) bool {
	return (f.Method == "" || f.Method == c.Method) &&
		(f.Claim == "" || matches(f.Claim, c.Claim)) &&
		(f.Name == "" || f.Name == c.Name) &&
		(f.Code == "" || f.Code == c.Code) &&
		(!f.Answered || c.Code != "") &&
		c.Seq > f.After
}

// query returns the filter as filterOf reads it.
func (f CallFilter) query() url.Values {
	q := url.Values{}
	for key, value := range map[string]string{"method": f.Method, "claim": f.Claim, "name": f.Name, "code": f.Code} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if f.Answered {
		q.Set("answered", "true")
	}
	if f.After > 0 {
		q.Set("after", strconv.Itoa(f.After))
	}
	return q
}
