package audit

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
)

// Log is an audit log. Make one with [Open]; the methods of the zero Log return [fs.ErrInvalid] wrapped.
type Log struct {
	path string
}

// Open returns the log in a file, which need not exist yet.
func Open(path string) *Log { return &Log{path: path} }

// errNoPath is of a log without a file: taken for an empty one, it would agree to every claim that nobody asked.
var errNoPath = fmt.Errorf("audit log without a path: %w", fs.ErrInvalid)

// Mark is a moment in a log: requests that the server received before it are not counted after it. The zero Mark is
// before everything.
type Mark struct {
	offset int64
	at     time.Time
}

// Mark returns the moment of now, by the clock of this machine, which must be the server's.
func (l *Log) Mark() (Mark, error) {
	if l.path == "" {
		return Mark{}, errNoPath
	}
	at := time.Now().Truncate(time.Microsecond) // as the log's times
	info, err := os.Stat(l.path)
	if os.IsNotExist(err) {
		return Mark{at: at}, nil
	}
	if err != nil {
		return Mark{}, fmt.Errorf("audit log: %w", err)
	}
	return Mark{offset: info.Size(), at: at}, nil
}

// Filter says which requests to keep.
type Filter func(Event) bool

// NoWatch leaves out watches.
func NoWatch(e Event) bool { return !e.IsWatch() }

// NoDiscovery leaves out requests that name no resource.
func NoDiscovery(e Event) bool { return !e.IsDiscovery() }

// Events returns the requests of a user since a mark that every filter keeps, in the order in which the server received
// them. An empty user is everybody.
func (l *Log) Events(since Mark, user string, only ...Filter) ([]Event, error) {
	if l.path == "" {
		return nil, errNoPath
	}
	all, err := l.read(since, user)
	if err != nil {
		return nil, fmt.Errorf("audit log %s: %w", l.path, err)
	}
	events := slices.DeleteFunc(all, func(e Event) bool {
		return slices.ContainsFunc(only, func(keep Filter) bool { return !keep(e) })
	})
	slices.SortStableFunc(events, func(a, b Event) int {
		return cmp.Or(a.Received.Compare(b.Received), cmp.Compare(a.ID, b.ID))
	})
	return events, nil
}

// Counts counts what [Log.Events] returns by verb and resource: [apirequest.Info.Key]. The map is never nil without an
// error.
func (l *Log) Counts(since Mark, user string, only ...Filter) (map[string]int, error) {
	events, err := l.Events(since, user, only...)
	if err != nil {
		return nil, err
	}
	return Count(events), nil
}

// Count counts events by verb and resource. The map is never nil.
func Count(events []Event) map[string]int {
	counts := map[string]int{}
	for _, e := range events {
		counts[e.Key()]++
	}
	return counts
}

// read returns the requests of a user that the server received after the mark, by their first entries.
func (l *Log) read(since Mark, user string) ([]Event, error) {
	file, err := os.Open(l.path)
	if os.IsNotExist(err) && since.offset == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	in, err := from(file, since.offset)
	if err != nil {
		return nil, err
	}
	// What is dropped at once needs no memory: a log may have a million entries.
	events, err := parseLog(in, func(e *entry) bool {
		return (user == "" || e.User.Username == user) && !e.Received.Before(since.at)
	})
	if err != nil {
		return nil, fmt.Errorf("after byte %d: %w", since.offset, err)
	}
	return events, nil
}

// Parse reads the text of a log: the requests in the order of their first entries. A last line without an end is left out.
// Its errors name the line, or are the reader's.
func Parse(r io.Reader) ([]Event, error) {
	return parseLog(r, func(*entry) bool { return true })
}

// parseLog reads a log and leaves out the entries that keep does not want, which must be the same for all of a request.
func parseLog(r io.Reader, keep func(*entry) bool) ([]Event, error) {
	in := bufio.NewReader(r)
	at := map[string]int{} // index by audit ID
	var events []Event
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, nil // what is left of line has no end yet
		}
		if err != nil {
			return nil, err
		}
		e, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if !keep(&e) {
			continue
		}
		if i, ok := at[e.AuditID]; ok {
			events[i] = e.onto(events[i])
			continue
		}
		at[e.AuditID] = len(events)
		events = append(events, e.event())
	}
}

// from reads on from an offset. A line that was half written there belongs to what came before.
func from(file *os.File, offset int64) (io.Reader, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < offset {
		return nil, fmt.Errorf("%d bytes, less than the %d at the mark", info.Size(), offset)
	}
	if offset == 0 {
		return file, nil
	}
	if _, err := file.Seek(offset-1, io.SeekStart); err != nil {
		return nil, err
	}
	in := bufio.NewReader(file)
	if _, err := in.ReadBytes('\n'); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return in, nil
}
