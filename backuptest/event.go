package backuptest

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// eventText is what an event says; number tells those of one moment apart, and now defaults to the time.
type eventText struct {
	component, kind, reason, message string
	number                           int
	now                              time.Time
}

// recordEvent records an event on an object, in its namespace or in namespace default.
func recordEvent(ctx context.Context, client dynamic.Interface, object *unstructured.Unstructured, text eventText) {
	if text.now.IsZero() {
		text.now = time.Now()
	}
	namespace := orString(object.GetNamespace(), metav1.NamespaceDefault)
	at := rfc3339(text.now)
	event := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "Event",
		"metadata": map[string]any{
			"namespace": namespace,
			"name":      fmt.Sprintf("%s.%x%04x", object.GetName(), text.now.UnixNano(), text.number),
		},
		"involvedObject": map[string]any{
			"apiVersion": object.GetAPIVersion(), "kind": object.GetKind(), "namespace": object.GetNamespace(), "name": object.GetName(),
			"uid": string(object.GetUID()), "resourceVersion": object.GetResourceVersion(),
		},
		"type": text.kind, "reason": text.reason, "message": text.message, "count": int64(1), "firstTimestamp": at, "lastTimestamp": at,
		"source": map[string]any{"component": text.component}, "reportingComponent": text.component, "reportingInstance": "",
	}}
	_, _ = client.Resource(eventsResource).Namespace(namespace).Create(ctx, event, metav1.CreateOptions{})
}
