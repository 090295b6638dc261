package apischema_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/sheetanchor/sheetanchor/internal/apischema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func parse(t *testing.T, text string) *apischema.Schema {
	t.Helper()
	s, faults := apischema.Parse(json.RawMessage(text), field.NewPath("schema"))
	if len(faults) > 0 {
		t.Fatal(faults.ToAggregate())
	}
	return s
}

// B1: each word of a schema refuses what it is for, with the path, and lets the rest through.
func TestJudge(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason, schema, object string
		want                   []string
	}{
		"nothing":             {"an empty schema allows all", `{}`, `{"a":1}`, nil},
		"any of":              {"one has to fit", `{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"integer"}]}}}`, `{"a":true}`, []string{"a: Invalid value: \"\": a in body must validate at least one schema (anyOf)"}},
		"all of":              {"each has to fit", `{"properties":{"a":{"allOf":[{"minimum":2},{"maximum":4}]}}}`, `{"a":5}`, []string{"a in body should be less than or equal to 4"}},
		"not":                 {"what must not fit", `{"properties":{"a":{"not":{"enum":["x"]}}}}`, `{"a":"x"}`, []string{"a in body must not validate the schema (not)"}},
		"of the whole object": {"rules at the root have no path", `{"not":{"required":["b"]}}`, `{"b":1}`, []string{`Invalid value: "": in body must not validate the schema (not)`}},
		"exclusive":           {"limits can be left out", `{"properties":{"a":{"minimum":2,"exclusiveMinimum":true},"b":{"maximum":2,"exclusiveMaximum":true}}}`, `{"a":2,"b":2}`, []string{"a in body should be greater than 2", "b in body should be less than 2"}},
		"number":              {"an integer is a number, not the other way round", `{"properties":{"a":{"type":"number"},"b":{"type":"integer"},"c":{"type":"integer"}}}`, `{"a":1,"b":1.0,"c":1.5}`, []string{`c in body must be of type integer: "number"`}},
		"enum of numbers":     {"1 is 1.0", `{"properties":{"a":{"enum":[1,2]}}}`, `{"a":3}`, []string{`a: Unsupported value: 3: supported values: "1", "2"`}},
		"nullable":            {"null only where it may be", `{"properties":{"a":{"type":"string","nullable":true},"b":{"type":"string"}}}`, `{"a":null,"b":null}`, []string{`b: Invalid value: "null": b in body must be of type string: "null"`}},
		"set":                 {"no item twice", `{"properties":{"a":{"x-kubernetes-list-type":"set","minItems":4}}}`, `{"a":[1,2,1]}`, []string{"a in body should have at least 4 items", "a[2]: Duplicate value"}},
		"properties":          {"counted", `{"properties":{"a":{"minProperties":2},"b":{"maxProperties":1}}}`, `{"a":{"x":1},"b":{"x":1,"y":2}}`, []string{"a in body should have at least 2 properties", "b: Too many: 2"}},
		"array":               {"is not an object", `{"properties":{"a":{"type":"object"}}}`, `{"a":[]}`, []string{`must be of type object: "array"`}},
		"boolean":             {"is a type", `{"properties":{"a":{"type":"string"}}}`, `{"a":true}`, []string{`must be of type string: "boolean"`}},
		"metadata":            {"is not the schema's", `{"properties":{"metadata":{"type":"string"}}}`, `{"metadata":{}}`, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var object map[string]any
			if err := utiljson.Unmarshal([]byte(tc.object), &object); err != nil {
				t.Fatal(err)
			}
			faults := parse(t, tc.schema).Judge(object)
			if len(faults) != len(tc.want) {
				t.Errorf("%s: %v, want %q", tc.reason, faults, tc.want)
			}
			for i, want := range tc.want {
				if i < len(faults) && !strings.Contains(faults[i].Error(), want) {
					t.Errorf("%s: fault %d = %v, want %s", tc.reason, i, faults[i], want)
				}
			}
		})
	}
}

// B1: an embedded object keeps its own metadata, and what keeps unknown fields does so for what it does not describe.
func TestPrune(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		schema, object, want string
		dropped              []string
	}{
		"embedded":  {`{"properties":{"a":{"x-kubernetes-embedded-resource":true}}}`, `{"kind":"K","a":{"kind":"L","metadata":{"x":1},"spec":1}}`, `{"kind":"K","a":{"kind":"L","metadata":{"x":1}}}`, []string{"a.spec"}},
		"preserved": {`{"properties":{"a":{"x-kubernetes-preserve-unknown-fields":true,"properties":{"b":{}}}}}`, `{"a":{"b":{"c":1},"d":{"e":1}}}`, `{"a":{"b":{},"d":{"e":1}}}`, []string{"a.b.c"}},
		"values":    {`{"properties":{"a":{"additionalProperties":{"properties":{"b":{}}}},"c":{"additionalProperties":true},"d":{"additionalProperties":false}}}`, `{"a":{"x":{"b":1,"y":2}},"c":{"z":{"w":1}},"d":{"q":1}}`, `{"a":{"x":{"b":1}},"c":{"z":{"w":1}},"d":{}}`, []string{"a.x.y", "d.q"}},
		"lists":     {`{"properties":{"a":{"items":{"items":{"properties":{"b":{}}}}}}}`, `{"a":[[{"b":1},{"c":1}]],"z":1}`, `{"a":[[{"b":1},{}]]}`, []string{"a[0][1].c", "z"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var object, want map[string]any
			if err := utiljson.Unmarshal([]byte(tc.object), &object); err != nil {
				t.Fatal(err)
			}
			if err := utiljson.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.dropped, parse(t, tc.schema).Prune(object)); diff != "" {
				t.Errorf("dropped -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(want, object); diff != "" {
				t.Errorf("left -want +got:\n%s", diff)
			}
		})
	}
}

// B1: a schema that cannot be followed is refused where it is wrong.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"properties":{"a":null}}`:              "schema.properties[a]",
		`{"items":{"pattern":"("}}`:              "schema.items.pattern",
		`{"not":{"oneOf":[{},{"pattern":"("}]}}`: "schema.not.oneOf[1].pattern",
		`{"additionalProperties":3}`:             "schema",
		`[]`:                                     "schema",
		`null`:                                   "schema",
	} {
		s, faults := apischema.Parse(json.RawMessage(text), field.NewPath("schema"))
		if s != nil || len(faults) == 0 || faults[0].Field != want {
			t.Errorf("Parse(%s) = %v, %v, want a fault at %s", text, s, faults, want)
		}
	}
}

// B1: no schema and no object break the reader; what is pruned and filled once needs neither again.
func FuzzSchema(f *testing.F) {
	f.Add(`{"properties":{"a":{"type":"string","default":"x"},"b":{"items":{"x-kubernetes-embedded-resource":true}}}}`, `{"b":[{"kind":"x","y":[1]}],"c":null}`)
	f.Add(`{"additionalProperties":{"default":1,"oneOf":[{},{"not":{}}]},"x-kubernetes-list-type":"map"}`, `{"b":[{"kind":"x"}],"c":1.5}`)
	f.Add(`{"properties":{"a":{"default":{"b":null},"properties":{"b":{"default":[1],"nullable":true},"c":{"default":2}}}}}`, `{}`)
	f.Fuzz(func(t *testing.T, text, value string) {
		var object map[string]any
		if utiljson.Unmarshal([]byte(value), &object) != nil || object == nil {
			t.Skip()
		}
		s, faults := apischema.Parse(json.RawMessage(text), field.NewPath("schema"))
		if len(faults) > 0 {
			return
		}
		s.Prune(object)
		if dropped := s.Prune(object); len(dropped) > 0 {
			t.Errorf("pruned again: %q", dropped)
		}
		s.Fill(object)
		once, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		s.Fill(object)
		if twice, err := json.Marshal(object); err != nil || !slices.Equal(once, twice) {
			t.Errorf("filled again: %s, then %s", once, twice)
		}
		for _, fault := range s.Judge(object) {
			if fault.Error() == "" {
				t.Errorf("a fault says nothing: %#v", fault)
			}
		}
	})
}
