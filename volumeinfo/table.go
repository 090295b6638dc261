package volumeinfo

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
)

// Table returns the records as text for people: a heading and one line for each record, in the order given, columns
// aligned. Characters that would move a terminal's cursor are replaced. No records give the heading alone.
func Table(records []BackupRecord) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(cells ...string) {
		for i, c := range cells {
			cells[i] = cell(c)
		}
		// A strings.Builder takes every write.
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	line("NAMESPACE", "CLAIM", "VOLUME", "METHOD", "RESULT", "SIZE", "HANDLE", "REASON")
	for _, r := range records {
		line(r.PVCNamespace, r.PVCName, r.PVName, string(r.BackupMethod), r.state(), r.size(), r.Handle(), r.reason())
	}
	// Nor does a flush to it fail.
	_ = w.Flush()
	return b.String()
}

func (r BackupRecord) state() string {
	switch {
	case r.Skipped:
		return "skipped"
	case r.Result == NotFinal:
		return "not final"
	}
	return string(r.Result)
}

func (r BackupRecord) reason() string {
	if r.Skipped {
		return r.SkippedReason
	}
	return r.Error
}

func (r BackupRecord) size() string {
	var size *int64
	switch {
	case r.SnapshotDataMovementInfo != nil:
		size = r.SnapshotDataMovementInfo.Size
	case r.CSISnapshotInfo != nil:
		size = r.CSISnapshotInfo.Size
	case r.PVBInfo != nil:
		size = r.PVBInfo.Size
	}
	if size == nil {
		return ""
	}
	return strconv.FormatInt(*size, 10)
}

func cell(s string) string {
	if s == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsGraphic(r):
			return '?'
		}
		return r
	}, s)
}
