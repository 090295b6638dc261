package csisnapshot_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/internal/race"
)

// trouble is what an API server, or the way to it, may do to requests.
type trouble struct {
	fault backuptest.Fault
	lasts time.Duration // zero: for ever
	watch bool          // only a watch can meet it
	write bool          // only a write can meet it
	later bool          // it is an answer when it is there from the start
}

// troubles are the columns of the matrix.
var troubles = map[string]trouble{
	"refused":               {fault: backuptest.Fault{Action: backuptest.FaultRefuse}, lasts: 8 * time.Second},
	"reset":                 {fault: backuptest.Fault{Action: backuptest.FaultReset}, lasts: 8 * time.Second},
	"429 with Retry-After":  {fault: backuptest.Fault{Code: 429, RetryAfter: 2 * time.Second}, lasts: 8 * time.Second},
	"500":                   {fault: backuptest.Fault{Code: 500}, lasts: 8 * time.Second},
	"503":                   {fault: backuptest.Fault{Code: 503}, lasts: 8 * time.Second},
	"timeout":               {fault: backuptest.Fault{Action: backuptest.FaultHang}, lasts: 8 * time.Second},
	"answer lost":           {fault: backuptest.Fault{Action: backuptest.FaultLostAnswer}, lasts: 8 * time.Second},
	"done without answer":   {fault: backuptest.Fault{Action: backuptest.FaultHangAnswer}, lasts: 8 * time.Second, write: true},
	"forbidden":             {fault: backuptest.Fault{Code: 403}},
	"forbidden for 2 s":     {fault: backuptest.Fault{Code: 403}, lasts: 2 * time.Second},
	"resource missing":      {fault: backuptest.Fault{Code: 404, Message: "the server could not find the requested resource"}, lasts: 5 * time.Second, later: true},
	"unsupported":           {fault: backuptest.Fault{Code: 405}, watch: true},
	"does not open":         {fault: backuptest.Fault{Action: backuptest.FaultHang}, watch: true},
	"EOF at once":           {fault: backuptest.Fault{Action: backuptest.FaultEndWatch}, watch: true},
	"EOF":                   {fault: backuptest.Fault{Action: backuptest.FaultEndWatch, After: 1}, watch: true},
	"410":                   {fault: backuptest.Fault{Action: backuptest.FaultExpireWatch, After: 1}, watch: true},
	"silent":                {fault: backuptest.Fault{Action: backuptest.FaultSilenceWatch}, watch: true},
	"falls silent":          {fault: backuptest.Fault{Action: backuptest.FaultSilenceWatch, After: 1}, watch: true},
	"the first event lost":  {fault: backuptest.Fault{Action: backuptest.FaultLoseEvent}, watch: true},
	"the second event lost": {fault: backuptest.Fault{Action: backuptest.FaultLoseEvent, After: 1, Times: 100, Nth: 1}, watch: true},
	"bookmarks lost":        {fault: backuptest.Fault{Action: backuptest.FaultLoseBookmarks}, watch: true},
}

// cell is one case of the matrix.
type cell struct {
	verb, resource, trouble string
	from                    time.Duration // when the trouble begins
	mode                    csisnapshot.Mode
}

func (c cell) String() string {
	return fmt.Sprintf("%s %s/%s from %v/%s", c.verb, c.resource, c.trouble, c.from, c.mode)
}

// matrix is every verb by every trouble that it can meet, watching and polling.
func matrix() (all []cell) {
	for _, verb := range []string{"create", "get", "list", "watch"} {
		resources := []string{"volumesnapshots", "volumesnapshotcontents"}
		if verb == "create" {
			resources = resources[:1] // the library creates no content here
		}
		for _, name := range slices.Sorted(maps.Keys(troubles)) {
			for _, resource := range resources {
				for _, mode := range []csisnapshot.Mode{csisnapshot.ModeWatch, csisnapshot.ModePoll} {
					for _, from := range []time.Duration{0, 1500 * time.Millisecond} {
						if c := (cell{verb, resource, name, from, mode}); c.exists() {
							all = append(all, c)
						}
					}
				}
			}
		}
	}
	return all
}

// exists reports whether anything can meet the trouble. Only lists are made both at the start and in the middle.
func (c cell) exists() bool {
	tr := troubles[c.trouble]
	switch {
	case tr.watch && c.verb != "watch", tr.write && c.verb != "create", c.verb == "watch" && c.mode == csisnapshot.ModePoll:
		return false
	case tr.later:
		return c.from > 0 && c.verb != "create"
	default:
		return c.from == 0 || c.verb == "list"
	}
}

// cuts are when the volumes of a cell are cut after their creates; zero is never.
var cuts = []time.Duration{2 * time.Second, 30 * time.Second, 0}

// matrixTimeout is longer than any trouble that passes.
const matrixTimeout = 3 * time.Minute

func TestFaultMatrix(t *testing.T) {
	t.Parallel()
	// S1 S8 X2 snap-17 all-9: whatever happens to whichever request, no ready snapshot is lost, nothing is cleaned up, no
	// snapshot is made twice, and a volume that is never cut is one typed timeout.
	for i, c := range matrix() {
		if i%race.Scaled(1, 7) != 0 { // odd, so that both adapters meet both modes
			continue
		}
		adapter := []string{"dynamic", "snapv6"}[i%2]
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { rideOut(newMatrixLab(bubble{T: t, adapter: adapter}, c)) })
		})
	}
}

// matrixLab is a cell with its cluster, which has a claim for each of cuts.
type matrixLab struct {
	*waitLab

	cell cell
	calm func() // ends the trouble
}

func newMatrixLab(t bubble, c cell) *matrixLab {
	opts := backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{}}
	for i, after := range cuts {
		opts.Scripts[claimName(i)] = backuptest.Script{CutAfter: after, ReadyAfter: time.Second, Silent: after == 0}
	}
	l := newWaitLab(t.T, t.adapter, opts, len(cuts))
	synctest.Wait()
	tr := troubles[c.trouble]
	tr.fault.Verb, tr.fault.Resource = c.verb, c.resource
	m := &matrixLab{waitLab: l, cell: c, calm: func() {}}
	trouble := func() {
		m.calm = l.cluster.Fault(tr.fault)
		if tr.lasts > 0 {
			time.AfterFunc(tr.lasts, m.calm)
		}
	}
	if c.from == 0 {
		trouble()
	} else {
		time.AfterFunc(c.from, trouble)
	}
	return m
}

// rideOut cuts the volumes and waits until they are ready.
func rideOut(l *matrixLab) {
	s := l.snapshotter(csisnapshot.WaitOptions{Mode: l.cell.mode, Timeout: matrixTimeout})
	plan, err := s.Plan(l.Context(), "app")
	if err != nil {
		l.Fatal(err)
	}
	report, err := s.Cut(l.Context(), l.owner, plan)
	if took := l.at(); took > matrixTimeout+2*time.Minute {
		l.Errorf("Cut took %v, want about %v", took, matrixTimeout)
	}
	if err != nil {
		l.checkError(err, 0)
	} else {
		for i := range cuts {
			if err := report.Volumes[i].Err; err != nil {
				l.checkError(err, i)
				continue
			}
			l.ready(s, i, *report.Volumes[i].Handle)
		}
	}
	l.checkUntouched()
}

// ready holds that the snapshot of claim i, which is cut, is found ready.
func (l *matrixLab) ready(s *csisnapshot.Snapshotter, i int, handle string) {
	l.Helper()
	if cuts[i] == 0 {
		l.Errorf("claim %d is cut, which never happened", i)
	}
	began := l.at()
	outcomes, err := s.Wait(l.Context(), l.owner, csisnapshot.StageReady, l.ref(i))
	if err = errors.Join(err, outcomes[0].Err); err != nil {
		l.checkError(err, i)
	} else if !outcomes[0].Result.Ready || outcomes[0].Result.Handle != handle {
		l.Errorf("ready: %+v, cut with handle %q", outcomes[0].Result, handle)
	}
	if took := l.at() - began; took > time.Minute {
		l.Errorf("one that is ready is known to be after %v", took)
	}
}

// forbids reports whether the cell leaves no way to learn what became of the snapshot, or to make it.
func (l *matrixLab) forbids() bool {
	c := l.cell
	return c.trouble == "forbidden" && (c.verb == "create" || c.verb == "list" || c.verb == "get" && c.resource == "volumesnapshotcontents")
}

// checkError holds that the only errors are the typed timeout of a snapshot that is never cut, and a refusal that stays.
func (l *matrixLab) checkError(err error, i int) {
	l.Helper()
	switch {
	case l.forbids() && (errors.Is(err, csisnapshot.ErrForbidden) || apierrors.IsForbidden(err)):
	case cuts[i] != 0:
		l.Errorf("claim %d: %v, want ready", i, err)
	default:
		e, ok := errors.AsType[*csisnapshot.WaitError](err)
		if !ok || !errors.Is(err, csisnapshot.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) || e.Ref != l.ref(i) {
			l.Errorf("%v, want one typed timeout", err)
		}
	}
}

// checkUntouched holds that what was made is there once, and that nothing was changed or deleted.
func (l *matrixLab) checkUntouched() {
	l.Helper()
	for request, n := range l.counter.Requests() {
		verb, _, _ := strings.Cut(request, " ")
		if !slices.Contains([]string{"create", "get", "list", "watch"}, verb) {
			l.Errorf("%d %q: waiting changes nothing", n, request)
		}
	}
	l.calm()
	page, err := adapters["dynamic"](l.T, l.cluster.Config()).Snapshots().List(l.Context(), "app", csisnapshot.ListOptions{})
	if err != nil {
		l.Fatal(err)
	}
	made := page.Items
	if len(made) != len(cuts) && (len(made) != 0 || !l.forbids() || l.cell.verb == "get") {
		l.Errorf("%d snapshots on the server, want %d", len(made), len(cuts))
	}
	for _, vs := range made {
		if vs.Terminating() {
			l.Errorf("%s is being deleted", vs.Ref())
		}
	}
	if stored := len(l.driver.Snapshots()); stored > min(len(made), len(cuts)-1) {
		l.Errorf("%d physical snapshots of %d", stored, len(made))
	}
}
