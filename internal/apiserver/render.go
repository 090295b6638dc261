package apiserver

import (
	"bytes"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
)

// render is an object's JSON in the version and the form that the client wants.
func (c *call) render(o *object) ([]byte, error) {
	switch {
	case c.format.table():
		return c.renderTable(metav1.ListMeta{ResourceVersion: o.tree().GetResourceVersion()}, []*object{o}, true)
	case c.format.partial():
		return partial(o, c.format.apiVersion()), nil
	default:
		return o.in(c.apiVersion())
	}
}

// partial is the metadata of an object.
func partial(o *object, apiVersion string) []byte {
	return encode(map[string]any{"kind": "PartialObjectMetadata", "apiVersion": apiVersion, "metadata": o.tree().Object["metadata"]})
}

// object answers with o.
func (c *call) object(code int, o *object) (*http.Response, error) {
	raw, err := c.render(o)
	if err != nil {
		return nil, err
	}
	return c.answer(code, raw), nil
}

// page answers with a list. The objects' own JSON is copied, not encoded again.
func (c *call) page(items []*object, p page) (*http.Response, error) {
	meta := metav1.ListMeta{ResourceVersion: formatVersion(p.rv), Continue: p.next}
	if p.remaining > 0 {
		meta.RemainingItemCount = new(int64(p.remaining))
	}
	if c.format.table() {
		raw, err := c.renderTable(meta, items, true)
		if err != nil {
			return nil, err
		}
		return c.answer(http.StatusOK, raw), nil
	}
	kind, version := c.res.listKind(), c.apiVersion()
	if c.format.partial() {
		kind, version = "PartialObjectMetadataList", c.format.apiVersion()
	}
	var body bytes.Buffer
	fmt.Fprintf(&body, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[`, kind, version, encode(meta))
	for i, o := range items {
		raw, err := c.render(o)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			body.WriteByte(',')
		}
		body.Write(raw)
	}
	body.WriteString("]}\n")
	return c.answer(http.StatusOK, body.Bytes()), nil
}

// renderTable makes a table of name and age of objects, each row with what includeObject asks for.
func (c *call) renderTable(meta metav1.ListMeta, objects []*object, columns bool) ([]byte, error) {
	table := metav1.Table{
		TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: c.format.apiVersion()},
		ListMeta: meta, Rows: make([]metav1.TableRow, 0, len(objects)),
	}
	if columns {
		table.ColumnDefinitions = []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "Name must be unique within a namespace."},
			{Name: "Age", Type: "string", Description: "CreationTimestamp is the time when this object was created."},
		}
	}
	for _, o := range objects {
		row := metav1.TableRow{Cells: []any{o.tree().GetName(), duration.HumanDuration(time.Since(o.tree().GetCreationTimestamp().Time))}}
		switch metav1.IncludeObjectPolicy(c.query.Get("includeObject")) {
		case metav1.IncludeNone:
		case metav1.IncludeObject:
			raw, err := o.in(c.apiVersion())
			if err != nil {
				return nil, err
			}
			row.Object = runtime.RawExtension{Raw: raw}
		default:
			row.Object = runtime.RawExtension{Raw: partial(o, c.format.apiVersion())}
		}
		table.Rows = append(table.Rows, row)
	}
	return encode(&table), nil
}

// renderBookmark is an object that holds a resourceVersion only.
func (c *call) renderBookmark(rv uint64, initialEnd bool) []byte {
	meta := map[string]any{"resourceVersion": formatVersion(rv)}
	if initialEnd {
		meta["annotations"] = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	object := map[string]any{"kind": c.res.Kind, "apiVersion": c.apiVersion(), "metadata": meta}
	switch {
	case c.format.table():
		object["kind"], object["apiVersion"] = "PartialObjectMetadata", c.format.apiVersion()
		return encode(&metav1.Table{
			TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: c.format.apiVersion()},
			ListMeta: metav1.ListMeta{ResourceVersion: formatVersion(rv)},
			Rows:     []metav1.TableRow{{Cells: []any{"", ""}, Object: runtime.RawExtension{Raw: encode(object)}}},
		})
	case c.format.partial():
		object["kind"], object["apiVersion"] = "PartialObjectMetadata", c.format.apiVersion()
	}
	return encode(object)
}
