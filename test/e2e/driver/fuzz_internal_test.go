package driver

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzReadCalls: whatever is in the file, reading it ends with an error or with calls 1 to n, and what was read is read again as it was.
func FuzzReadCalls(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "{}\n", `{"Seq":1,"Method":"Probe"}` + "\n",
		`{"Seq":1,"Method":"CreateSnapshot"}` + "\n" + `{"Seq":2}` + "\n" + `{"Seq":1,"Code":"OK","Snapshots":[{"ID":"s","CutAt":"2030-01-02T03:04:05Z"}]}` + "\n",
		`{"Seq":3}` + "\n", `{"Seq":-1}` + "\n", `{"Seq":1}x`, `[]` + "\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		calls, err := readCalls(data)
		if err != nil {
			return
		}
		for i, c := range calls {
			if c.Seq != i+1 || c.Code == "" {
				t.Fatalf("call %d = %+v, want Seq %d and a code", i, c, i+1)
			}
		}
		written, err := lines(calls)
		if err != nil {
			return // a time that JSON can hold but not write, such as one with a zone of 24 h
		}
		again, err := readCalls(written)
		if err != nil {
			t.Fatalf("read again: %v", err)
		}
		if got, err := lines(again); err != nil || !bytes.Equal(got, written) {
			t.Errorf("read again = %s, %v, want %s", got, err, written)
		}
	})
}

// lines returns the calls as they are written.
func lines(calls []Call) ([]byte, error) {
	var written []byte
	for _, c := range calls {
		line, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		written = append(append(written, line...), '\n')
	}
	return written, nil
}

// FuzzFilter: a filter is the same after it went through a query.
func FuzzFilter(f *testing.F) {
	f.Add("CreateSnapshot", "app/*", "s", "OK", true, 3)
	f.Add("", "", "", "", false, -1)
	f.Add("a&b", "=", "\x00", "%", false, 1)
	f.Fuzz(func(t *testing.T, method, claim, name, code string, answered bool, after int) {
		want := CallFilter{Method: method, Claim: claim, Name: name, Code: code, Answered: answered, After: max(after, 0)}
		got, least, err := filterOf(want.query())
		if err != nil || got != want || least != 0 {
			t.Errorf("filterOf(%+v) = %+v, %d, %v, want the same, 0, nil", want, got, least, err)
		}
	})
}
