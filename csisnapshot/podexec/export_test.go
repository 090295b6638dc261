package podexec

import "time"

// Hurry makes a quiescer of a test with real sockets, whose time is real, try again at once. That of users is tested in virtual
// time.
func Hurry(q *Quiescer) *Quiescer {
	q.tries = patience{between: time.Millisecond, deniedFor: 100 * time.Millisecond}
	return q
}
