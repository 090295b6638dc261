// Package configmapstore keeps documents of package operations in ConfigMaps, for a program that has no other place for
// them: no bucket, no volume. Each document is one ConfigMap of one namespace.
//
//   - A document of more than 1 MiB, as it is stored, is [operations.ErrTooLarge] before anything is sent. A record of
//     some ten thousand operations has a tenth of that, because it is compressed.
//   - Every write is conditional on the resourceVersion that was read, so that a deposed leader gets a conflict. Labels,
//     annotations and owner references that somebody else puts on a ConfigMap stay, and are no conflict.
//   - Nothing is cached: every read asks the API server, without a resourceVersion, so that it is not answered from an old
//     watch cache.
//
// A ConfigMap is named PREFIX-HASH, where the hash is that of the document's name, which stands in an annotation. Its
// content stands in binaryData under "document", or compressed under "document.gz" when that is smaller. The annotation
// "format" says so, and another format than this package knows is [operations.ErrMalformed]: a later version may write it,
// and nothing of it is changed.
//
// # Permissions
//
// It needs get, create and patch of configmaps in its namespace, and delete for [operations.Map.Remove];
// docs/rbac/configmapstore.yaml is that role. Each ConfigMap carries the label "DOMAIN/store: PREFIX". One that has an owner
// reference goes with its owner.
//
// # Errors
//
// A write of which the API server's answer is missing, or an internal error of its, is [operations.ErrUnknownOutcome]. Any
// other error of client-go stays wrapped, so that apierrors.IsForbidden holds. A NotFound that does not name the ConfigMap
// comes from something else than the API server and is not [operations.ErrNotFound].
//
// # Concurrency
//
// A Store is safe for concurrent use, in any number of processes.
package configmapstore
