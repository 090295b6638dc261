package audit

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// lines is a log of n requests of somebody, and what the heap holds when all of them were read.
type lines struct {
	n, at int
	rest  strings.Reader
	heap  uint64
}

func (l *lines) Read(p []byte) (int, error) {
	if l.rest.Len() > 0 {
		return l.rest.Read(p)
	}
	if l.at == l.n {
		l.heap = heap()
		return 0, io.EOF
	}
	l.at++
	l.rest.Reset(fmt.Sprintf(`{"auditID":"%d","stage":"ResponseComplete","verb":"list","user":{"username":"somebody"},`+
		`"requestURI":"/api/v1/namespaces/app/pods?labelSelector=%s"}`+"\n", l.at, strings.Repeat("x", 500)))
	return l.rest.Read(p)
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// A log of a million requests of others costs time, not memory.
func TestParseKeepsWhatIsWanted(t *testing.T) { //nolint:paralleltest // it measures the heap
	const most = 4 << 20
	log := &lines{n: 20_000}
	before := heap()
	events, err := parseLog(log, func(e *entry) bool { return e.User.Username == "u" })
	if err != nil || len(events) != 0 {
		t.Fatalf("parseLog = %d events, %v", len(events), err)
	}
	if log.heap > before+most {
		t.Errorf("%d bytes more on the heap after %d entries of others, want at most %d", log.heap-before, log.n, most)
	}
}
