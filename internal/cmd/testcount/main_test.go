package main

import (
	"strings"
	"testing"
)

func TestCounts(t *testing.T) {
	t.Parallel()
	const events = `{"Action":"run","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Test":"A","Output":"noise of a test that passed\n"}
{"Action":"pass","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Test":"B","Output":"why B failed\n"}
{"Action":"fail","Package":"p","Test":"B"}
{"Action":"skip","Package":"p","Test":"C"}
not json: a build error
{"Action":"output","Package":"q","Output":"PASS\n"}
{"Action":"output","Package":"q","Output":"ok  \tq\t0.1s\n"}
{"Action":"pass","Package":"q"}
`
	c := counter{output: map[string][]string{}}
	var out strings.Builder
	if err := c.read(strings.NewReader(events), &out); err != nil {
		t.Fatal(err)
	}
	if c.passed != 1 || c.failed != 1 || c.skipped != 1 {
		t.Errorf("passed, failed, skipped = %d, %d, %d, want 1, 1, 1", c.passed, c.failed, c.skipped)
	}
	if got, want := out.String(), "why B failed\nnot json: a build error\nok  \tq\t0.1s\n"; got != want {
		t.Errorf("output = %q, want %q", got, want)
	}
}
