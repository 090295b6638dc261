package finalize_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/finalize"
)

func zipped(tb testing.TB, text []byte) []byte {
	tb.Helper()
	var buf bytes.Buffer
	zip := gzip.NewWriter(&buf)
	if _, err := zip.Write(text); err != nil {
		tb.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		tb.Fatal(err)
	}
	return buf.Bytes()
}

func unzipped(tb testing.TB, data []byte) []byte {
	tb.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		tb.Fatal(err)
	}
	text, err := io.ReadAll(zip)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// F4: Velero's form, both ways, with keys of a newer writer kept at every level.
func TestResultsForm(t *testing.T) {
	t.Parallel()
	const text = `{"warnings":{"velero":["w"],"later":[1]},"errors":{"cluster":["c1","c2"],"namespaces":{"app":["a"],"db":["b","b2"]}},"notes":{"x":null}}` + "\n"
	r, err := finalize.DecodeResults(zipped(t, []byte(text)), 0)
	if err != nil {
		t.Fatal(err)
	}
	if r.Warnings.Len() != 1 || r.Errors.Len() != 5 || r.Errors.Namespaces["db"][1] != "b2" {
		t.Errorf("decoded %+v", r)
	}
	data, err := finalize.EncodeResults(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(unzipped(t, data)); got != text {
		t.Errorf("round trip:\n%s", got)
	}
	empty, err := finalize.EncodeResults(finalize.Results{})
	if err != nil || string(unzipped(t, empty)) != `{"warnings":{},"errors":{}}`+"\n" {
		t.Errorf("no results = %q, %v, want what Velero writes", unzipped(t, empty), err)
	}
}

func TestDecodeResultsRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		data []byte
		want error
	}{
		"absent":   {nil, nil},
		"no gzip":  {[]byte("{}"), finalize.ErrMalformedResults},
		"no json":  {zipped(t, []byte("{")), finalize.ErrMalformedResults},
		"a list":   {zipped(t, []byte("[]")), finalize.ErrMalformedResults},
		"wrong":    {zipped(t, []byte(`{"errors":{"velero":"x"}}`)), finalize.ErrMalformedResults},
		"too long": {zipped(t, bytes.Repeat([]byte(" "), 1<<17)), finalize.ErrTooLarge},
	} {
		if r, err := finalize.DecodeResults(tc.data, 1<<16); !errors.Is(err, tc.want) || r.Errors.Len() > 0 {
			t.Errorf("%s: DecodeResults = %+v, %v, want %v", name, r, err, tc.want)
		}
	}
	bad := finalize.Results{Extra: map[string]json.RawMessage{"k": json.RawMessage("{")}}
	if _, err := finalize.EncodeResults(bad); err == nil {
		t.Error("EncodeResults(an Extra that is no JSON) gave no error")
	}
}

// F4: merging is idempotent, loses nothing and changes no earlier message.
func TestMergeIsIdempotent(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		a, b := randomResults(r), randomResults(r)
		var merged finalize.Results
		merged.Merge(a)
		before := fmt.Sprint(merged)
		if before != fmt.Sprint(a) {
			t.Fatalf("seed %d: merged into nothing: %v, want %v", seed, merged, a)
		}
		merged.Merge(b)
		once := fmt.Sprint(merged)
		merged.Merge(b)
		merged.Merge(a)
		if fmt.Sprint(merged) != once {
			t.Fatalf("seed %d: merged again: %v, want %s", seed, merged, once)
		}
		for ns, list := range a.Errors.Namespaces {
			if diff := cmp.Diff(list, merged.Errors.Namespaces[ns][:len(list)]); diff != "" {
				t.Fatalf("seed %d: earlier messages of %s (-want +got):\n%s", seed, ns, diff)
			}
		}
		if fmt.Sprint(a) != before {
			t.Fatalf("seed %d: Merge changed what it was given", seed)
		}
	}
}

func randomResults(r *rand.Rand) (out finalize.Results) {
	for range r.IntN(6) {
		message := fmt.Sprintf("message %d", r.IntN(5))
		set := []*finalize.ResultSet{&out.Warnings, &out.Errors}[r.IntN(2)]
		switch r.IntN(3) {
		case 0:
			set.AddVelero(message)
		case 1:
			set.Add("", message)
		default:
			set.Add(fmt.Sprintf("ns-%d", r.IntN(2)), message)
		}
	}
	return out
}

// Entries of many volumes become results in linear time: each message is looked at once.
func BenchmarkReportResults10000(b *testing.B) {
	h := finalize.HookReport{Name: "release", State: finalize.Failed}
	for i := range 10_000 {
		h.Items = append(h.Items, finalize.Entry{Namespace: "app", Name: fmt.Sprint(i), Message: "refused"})
	}
	r := finalize.Report{Hooks: []finalize.HookReport{h}}
	for b.Loop() {
		if r.Errors() != 10_000 {
			b.Fatal(r.Errors())
		}
	}
}

func FuzzDecodeResults(f *testing.F) {
	f.Add([]byte(`{"warnings":{"velero":["w"]},"errors":{"namespaces":{"app":["a"]},"cluster":null},"Errors":{"x":1}}`))
	f.Add([]byte(`{"warnings":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := finalize.DecodeResults(zipped(t, text), 1<<20)
		if err != nil {
			return
		}
		once, err := finalize.EncodeResults(r)
		if err != nil {
			t.Fatalf("what was decoded cannot be encoded: %v", err)
		}
		back, err := finalize.DecodeResults(once, 0)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := finalize.EncodeResults(back); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("a second round trip changed the file (%v):\n%s\n%s", err, unzipped(t, once), unzipped(t, twice))
		}
	})
}
