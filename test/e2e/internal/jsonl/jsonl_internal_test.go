package jsonl

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// fullDisk is a file on a disk with so much room: a write takes what fits.
type fullDisk struct {
	data []byte
	room int
	stay error // of Truncate
}

func (d *fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.room)
	d.data, d.room = append(d.data, p[:n]...), d.room-n
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (d *fullDisk) Truncate(size int64) error {
	if d.stay != nil {
		return d.stay
	}
	d.data = d.data[:size]
	return nil
}

func (d *fullDisk) Close() error { return nil }

// A line that does not fit leaves nothing that would spoil the next one.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for reason, stay := range map[string]error{"cut off at once": nil, "cut off before the next line": errors.New("busy")} {
		disk := &fullDisk{room: 6, stay: stay}
		f := &File{file: disk}
		if err := f.Append(1); err != nil {
			t.Fatal(err)
		}
		if err := f.Append("four"); !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, stay) && stay != nil {
			t.Errorf("%s: Append on a full disk = %v, want ENOSPC and what cutting off gave", reason, err)
		}
		if stay != nil {
			if err := f.Append(2); !errors.Is(err, stay) {
				t.Errorf("%s: Append behind half a line = %v, want %v", reason, err, stay)
			}
		}
		disk.room, disk.stay = 100, nil
		if err := f.Append(2); err != nil {
			t.Fatal(err)
		}
		if got, want := string(disk.data), "1\n2\n"; got != want {
			t.Errorf("%s: the file holds %q, want %q", reason, got, want)
		}
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	for reason, tc := range map[string]struct{ before, lines, after string }{
		"new":                         {"", "", "7\n"},
		"whole lines":                 {"1\n2\n", "1\n2\n", "1\n2\n7\n"},
		"half a line of a killed one": {"1\n{\"a", "1\n", "1\n7\n"},
		"nothing but half a line":     {"{\"a", "", "7\n"},
	} {
		path := filepath.Join(t.TempDir(), "lines")
		if tc.before != "" {
			if err := os.WriteFile(path, []byte(tc.before), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f, lines, err := Open(path)
		if err != nil || string(lines) != tc.lines {
			t.Fatalf("%s: Open = %q, %v, want %q", reason, lines, err, tc.lines)
		}
		if err := errors.Join(f.Append(7), f.Close()); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != tc.after {
			t.Errorf("%s: the file holds %q, %v, want %q", reason, got, err, tc.after)
		}
	}
	if _, _, err := Open(t.TempDir()); err == nil {
		t.Error("Open of a directory succeeded")
	}
	if err := (&File{file: &fullDisk{}}).Append(make(chan int)); err == nil {
		t.Error("Append of what JSON cannot hold succeeded")
	}
}
