package csisnapshot_test

import (
	"testing"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// The version is of the content that the handle was last read from, and of the moment when it became ready: whatever comes
// later, the record says which look it is built from. S2, vol-14.
func TestJudgeKeepsTheVersionOfTheHandle(t *testing.T) {
	t.Parallel()
	version := func(v string) func(*csisnapshot.Content) {
		return func(c *csisnapshot.Content) { c.ResourceVersion = v }
	}
	type look = csisnapshot.Look
	tests := map[string]struct {
		looks []look
		want  string
	}{
		"no handle":             {[]look{{Snapshot: vs(), Content: vsc(version("3"))}}, ""},
		"handle":                {[]look{{Snapshot: vs(), Content: vsc(version("3"))}, {Snapshot: vs(), Content: vsc(version("4"), vscHandle("h"))}}, "4"},
		"newer, the same":       {[]look{{Snapshot: vs(), Content: vsc(version("4"), vscHandle("h"))}, {Snapshot: vs(), Content: vsc(version("5"), vscHandle("h"))}}, "5"},
		"handle gone":           {[]look{{Snapshot: vs(), Content: vsc(version("4"), vscHandle("h"))}, {Snapshot: vs(), Content: vsc(version("5"))}}, "4"},
		"another handle":        {[]look{{Snapshot: vs(), Content: vsc(version("4"), vscHandle("h"))}, {Snapshot: vs(), Content: vsc(version("5"), vscHandle("x"))}}, "4"},
		"of another's snapshot": {[]look{{Snapshot: vs(), Content: vsc(version("4"), vscHandle("h"))}, {Snapshot: vs(), Content: vsc(version("5"), vscHandle("h"), vscRef("other"))}}, "4"},
		"when ready":            {[]look{{Snapshot: vs(), Content: vsc(version("4"), vscHandle("h"))}, {Snapshot: vs(vsReady(true)), Content: vsc(version("5"), vscHandle("h"))}}, "5"},
		"after ready":           {[]look{{Snapshot: vs(vsReady(true)), Content: vsc(version("5"), vscHandle("h"))}, {Snapshot: vs(vsReady(false)), Content: vsc(version("6"), vscHandle("h"))}}, "5"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := csisnapshot.NewState(judgeTarget())
			for _, l := range tt.looks {
				l.Now = noon
				s = csisnapshot.Judge(s, l)
			}
			if s.ContentVersion != tt.want {
				t.Errorf("version %q of handle %q, want %q", s.ContentVersion, s.Handle, tt.want)
			}
		})
	}
}
