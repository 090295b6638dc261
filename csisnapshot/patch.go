package csisnapshot

import (
	"encoding/json"
	"maps"
)

// mergePatch is a merge patch that applies only to the version of the object that was read.
func mergePatch(m Meta, metadata, spec map[string]any) []byte {
	meta := map[string]any{}
	maps.Copy(meta, metadata)
	if m.ResourceVersion != "" { // fakes have none
		meta["resourceVersion"] = m.ResourceVersion
	}
	patch := map[string]any{"metadata": meta}
	if spec != nil {
		patch["spec"] = spec
	}
	data, err := json.Marshal(patch)
	if err != nil { // maps of strings cannot fail to encode
		return nil
	}
	return data
}

func annotation(key, value string) map[string]any {
	return map[string]any{"annotations": map[string]any{key: value}}
}
