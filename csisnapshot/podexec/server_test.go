package podexec_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/apimachinery/pkg/util/httpstream/wsstream"
	"k8s.io/client-go/rest"
)

// execServer is the exec part of an API server on a real socket. Its pods run the one command of a test.
type execServer struct {
	t      *testing.T
	config *rest.Config
	spdy   bool // speaks SPDY
	socket bool // speaks WebSocket
	// run is the command: it may write, and its return is its exit. Nil exits with 0.
	run func(stdout, stderr io.Writer) exit

	mu       sync.Mutex
	trouble  http.HandlerFunc // answers the next requests instead
	troubled int              // how many
	requests []string
	ran      int
	conns    []net.Conn    // of upgraded connections
	release  chan struct{} // closed at the end of the test: lets hanging commands go
	all      sync.WaitGroup
}

// exit is how a command ends. broken cuts the connection, and silent closes it in order, without saying how.
type exit struct {
	code           int
	broken, silent bool
}

func newExecServer(t *testing.T) *execServer {
	t.Helper()
	s := &execServer{t: t, release: make(chan struct{})}
	server := httptest.NewUnstartedServer(s)
	server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		if state == http.StateHijacked {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.conns = append(s.conns, conn)
		}
	}
	server.Start()
	s.config = &rest.Config{Host: server.URL}
	t.Cleanup(func() {
		close(s.release)
		s.all.Wait()
		server.Close()
	})
	return s
}

// seen are the requests so far, as "METHOD upgrade path?query".
func (s *execServer) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

// commands is how often a command ran.
func (s *execServer) commands() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ran
}

func (s *execServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.all.Add(1)
	defer s.all.Done()
	s.mu.Lock()
	s.requests = append(s.requests, req.Method+" "+strings.ToLower(req.Header.Get("Upgrade"))+" "+req.URL.String())
	s.mu.Unlock()
	switch trouble := s.inTrouble(); {
	case trouble != nil:
		trouble(w, req)
	case !strings.HasPrefix(req.URL.Path, "/api/v1/namespaces/app/pods/db/exec"):
		http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods \"x\" not found","reason":"NotFound","code":404}`, http.StatusNotFound)
	case wsstream.IsWebSocketRequest(req) && s.socket:
		s.serveSocket(w, req)
	case wsstream.IsWebSocketRequest(req) || !s.spdy:
		http.Error(w, "no such upgrade", http.StatusBadRequest)
	default:
		s.serveSPDY(w, req)
	}
}

// outage lets the next n requests be answered otherwise.
func (s *execServer) outage(n int, answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.troubled, s.trouble = n, answer
}

// inTrouble is what answers the request instead; nil: nothing does.
func (s *execServer) inTrouble() http.HandlerFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.troubled == 0 {
		return nil
	}
	s.troubled--
	return s.trouble
}

func (s *execServer) serveSPDY(w http.ResponseWriter, req *http.Request) {
	if _, err := httpstream.Handshake(req, w, []string{"v5.channel.k8s.io", "v4.channel.k8s.io"}); err != nil {
		s.t.Errorf("handshake: %v", err)
		return
	}
	type opened struct {
		kind   string
		stream httpstream.Stream
		sent   <-chan struct{}
	}
	arrived := make(chan opened, 4)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, req, func(stream httpstream.Stream, sent <-chan struct{}) error {
		arrived <- opened{stream.Headers().Get("streamType"), stream, sent}
		return nil
	})
	if conn == nil {
		s.t.Error("upgrade failed")
		return
	}
	defer func() { _ = conn.Close() }()
	streams := map[string]httpstream.Stream{}
	for range 3 { // error, stdout, stderr
		select {
		case o := <-arrived:
			<-o.sent
			streams[o.kind] = o.stream
		case <-time.After(10 * time.Second):
			s.t.Error("the client did not open its streams")
			return
		}
	}
	s.execute(streams["stdout"], streams["stderr"], streams["error"])
	if stream := streams["error"]; stream != nil {
		_ = stream.Close()
	}
	select { // the client closes the connection when it has read everything
	case <-conn.CloseChan():
	case <-time.After(time.Second):
	}
}

func (s *execServer) serveSocket(w http.ResponseWriter, req *http.Request) {
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{"v5.channel.k8s.io": {
		Binary:   true,
		Channels: []wsstream.ChannelType{wsstream.ReadChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.WriteChannel},
	}})
	_, channels, err := conn.Open(w, req)
	if err != nil {
		s.t.Errorf("websocket: %v", err)
		return
	}
	defer func() { _ = conn.Close() }()
	s.execute(channels[1], channels[2], channels[3])
}

// execute runs the command and says how it ended, as the kubelet does.
func (s *execServer) execute(stdout, stderr, status io.Writer) {
	s.mu.Lock()
	s.ran++
	s.mu.Unlock()
	var end exit
	if s.run != nil {
		end = s.run(stdout, stderr)
	}
	if end.broken {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, conn := range s.conns {
			_ = conn.Close()
		}
		return
	}
	if end.silent {
		return
	}
	answer := metav1.Status{Status: metav1.StatusSuccess}
	if end.code != 0 {
		answer = metav1.Status{
			Status: metav1.StatusFailure, Reason: "NonZeroExitCode", Message: "command terminated with non-zero exit code",
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "ExitCode", Message: itoa(end.code)}}},
		}
	}
	data, err := json.Marshal(answer)
	if err != nil {
		s.t.Error(err)
	}
	if _, err := status.Write(data); err != nil {
		s.t.Logf("the client is gone: %v", err)
	}
}

func itoa(n int) string {
	data, _ := json.Marshal(n)
	return string(data)
}
