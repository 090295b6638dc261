package configmapstore

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/sheetanchor/sheetanchor/internal/gzipjson"
	"github.com/sheetanchor/sheetanchor/operations"
)

// The keys of the content; a ConfigMap has one of them.
const (
	rawKey = "document"
	zipKey = "document.gz"
)

// format is the version of what stands in a ConfigMap.
const format = "1"

// configMap returns the name of the ConfigMap of a document.
func (o *Options) configMap(name string) string {
	sum := sha256.Sum256([]byte(name))
	return o.Prefix + "-" + hex.EncodeToString(sum[:20])
}

func (o *Options) annotations(name string) map[string]string {
	return map[string]string{o.Domain + "/document": name, o.Domain + "/format": format}
}

// pack returns what is stored for a document, and under which key.
func pack(data []byte, limit int) (key string, stored []byte, err error) {
	key, stored = rawKey, data
	if stored == nil {
		stored = []byte{}
	}
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) { // what is compressed does not get smaller
		var out bytes.Buffer
		zip := gzip.NewWriter(&out)
		_, err := zip.Write(data)
		if err := errors.Join(err, zip.Close()); err != nil {
			return "", nil, fmt.Errorf("compress: %w", err)
		}
		if out.Len() < len(data) {
			key, stored = zipKey, out.Bytes()
		}
	}
	if len(stored) > limit {
		return "", nil, fmt.Errorf("%w: %d bytes, of which a config map can hold %d", operations.ErrTooLarge, len(stored), limit)
	}
	return key, stored, nil
}

// unpack returns the document of a ConfigMap.
func (o *Options) unpack(name string, cm *corev1.ConfigMap) ([]byte, error) {
	if got := cm.Annotations[o.Domain+"/format"]; got != format {
		return nil, fmt.Errorf("%w: annotation %s/format is %q, want %q", operations.ErrMalformed, o.Domain, got, format)
	}
	if got := cm.Annotations[o.Domain+"/document"]; got != name {
		return nil, fmt.Errorf("%w: annotation %s/document is %q", operations.ErrMalformed, o.Domain, got)
	}
	raw, isRaw := cm.BinaryData[rawKey]
	zipped, isZip := cm.BinaryData[zipKey]
	switch {
	case isRaw == isZip:
		return nil, fmt.Errorf("%w: want one of the keys %s and %s in binaryData", operations.ErrMalformed, rawKey, zipKey)
	case isRaw:
		return raw, nil
	}
	data, err := gzipjson.Expand(zipped, operations.DefaultMaxBytes)
	switch {
	case errors.Is(err, gzipjson.ErrTooLarge):
		return nil, fmt.Errorf("%w: %s: %w", operations.ErrTooLarge, zipKey, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %s: %w", operations.ErrMalformed, zipKey, err)
	}
	return data, nil
}

// versions are what a write is conditional on: the ConfigMap, its version, and the content, which tells a change of the
// document from one of the labels.
type versions struct{ uid, resource, hash string }

func versionOf(cm *corev1.ConfigMap, data []byte) versions {
	sum := sha256.Sum256(data)
	return versions{uid: string(cm.UID), resource: cm.ResourceVersion, hash: hex.EncodeToString(sum[:16])}
}

// String is the version as the store's users see it.
func (v versions) String() string { return v.uid + "/" + v.resource + "/" + v.hash }

func parseVersion(text string) (versions, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || parts[1] == "" {
		return versions{}, fmt.Errorf("%q is no version of a config map", text)
	}
	return versions{uid: parts[0], resource: parts[1], hash: parts[2]}, nil
}
