package stack

import "testing"

func FuzzParseStat(f *testing.F) {
	f.Add("7 (etcd) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 0 20 0 12 0 987654 1 1")
	f.Add("7 (a) b) Z (c) T 1 7")
	f.Add("")
	f.Fuzz(func(t *testing.T, line string) {
		p, err := parseStat(line)
		if again, err2 := parseStat("9 (x) y" + line); err == nil && err2 == nil && again != p {
			t.Errorf("parseStat(%q) = %+v, and %+v with another name before it", line, p, again)
		}
		if err == nil && p.state == 0 {
			t.Errorf("parseStat(%q) = %+v, want a state", line, p)
		}
	})
}
