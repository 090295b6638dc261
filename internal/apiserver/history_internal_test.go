package apiserver

import (
	"testing"

	"k8s.io/apimachinery/pkg/watch"
)

// B1: the history forgets the oldest changes only, says so, and never lets go of a reader that is on its way.
func TestHistoryForgets(t *testing.T) {
	t.Parallel()
	h := newHistory(10)
	slow, ok := h.after(10)
	if !ok {
		t.Fatal("after(10) is forgotten before anything happened")
	}
	if _, ok := h.after(9); ok {
		t.Error("after(9) is known to a history that begins at 10")
	}
	const changes = 2*historyLimit + 1
	for i := range uint64(changes) {
		h.add(event{rv: 11 + i, kind: watch.Modified, object: &object{}})
	}
	last := uint64(10 + changes)
	if len(h.recent) != historyLimit || h.floor != last-historyLimit {
		t.Errorf("%d kept from %d on, want %d from %d on", len(h.recent), h.floor, historyLimit, last-historyLimit)
	}
	for rv, want := range map[uint64]int{h.floor - 1: -1, h.floor: historyLimit, last - 1: 1, last: 0, last + 5: 0} {
		later, ok := h.since(rv)
		if ok != (want >= 0) || ok && len(later) != want {
			t.Errorf("since(%d) = %d, %v, want %d", rv, len(later), ok, want)
		}
		if at, known := h.after(rv); known != ok || known && want > 0 && at.next.rv != later[0].rv {
			t.Errorf("after(%d) stands elsewhere than since(%d)", rv, rv)
		}
	}
	seen := uint64(10)
	for slow.next != nil {
		<-slow.ready
		slow = slow.next
		if seen++; slow.rv != seen {
			t.Fatalf("the slow reader saw %d, want %d", slow.rv, seen)
		}
	}
	if seen != last {
		t.Errorf("the slow reader got to %d, want %d", seen, last)
	}
}
