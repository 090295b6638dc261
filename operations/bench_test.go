package operations_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sheetanchor/sheetanchor/operations"
)

// benchList returns n operations as a snapshot driver's action leaves them.
func benchList(tb testing.TB, n int) operations.List {
	tb.Helper()
	ops := make([]operations.Operation, n)
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for i := range ops {
		name := "data-" + strconv.Itoa(i)
		ops[i] = operations.Operation{
			ID: "app/" + name + "/2026-03-04T05:06:07Z", Action: "velero.io/csi-volumesnapshot-backupper",
			Resource:  operations.ResourceID{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots", Namespace: "app", Name: name},
			PostItems: []operations.ResourceID{{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots", Namespace: "app", Name: name}},
			Status: operations.Status{
				Phase: operations.PhaseInProgress, Completed: int64(i), Total: 1 << 30, Units: "Bytes", Description: "waiting for the driver",
				Created: new(at), Started: new(at.Add(time.Second)), Updated: new(at.Add(time.Duration(i) * time.Second)),
			},
		}
	}
	list, err := operations.NewList(ops...)
	if err != nil {
		tb.Fatal(err)
	}
	return list
}

// sizes are how many operations a key has in the benchmarks.
var sizes = []int{1, 100, 10_000}

// benchKeys returns the keys of n backups.
func benchKeys(n int) []operations.Key {
	keys := make([]operations.Key, n)
	for i := range keys {
		keys[i] = operations.Key{Namespace: "app", Name: "b" + strconv.Itoa(i), UID: types.UID("uid-" + strconv.Itoa(i))}
	}
	return keys
}

// benchMap returns a map that knows the keys, each with the list.
func benchMap(b *testing.B, keys []operations.Key, list operations.List) *operations.Map {
	b.Helper()
	m, err := operations.NewMap(operations.NewMemoryStore(), operations.BackupForm, operations.MapOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for _, key := range keys {
		if _, err := m.Put(b.Context(), operations.Record{Key: key, List: list}); err != nil {
			b.Fatal(err)
		}
	}
	return m
}

// BenchmarkMapGet is what a reconciler does most: ask for the record.
func BenchmarkMapGet(b *testing.B) {
	for _, n := range sizes {
		for _, k := range []int{1, 64, 1000} {
			b.Run(fmt.Sprintf("operations=%d/keys=%d", n, k), func(b *testing.B) {
				keys := benchKeys(k)
				m := benchMap(b, keys, benchList(b, n))
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if _, err := m.Get(b.Context(), keys[i%k]); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkMapGetAndRead also copies out each operation.
func BenchmarkMapGetAndRead(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("operations=%d", n), func(b *testing.B) {
			keys := benchKeys(1)
			m := benchMap(b, keys, benchList(b, n))
			b.ReportAllocs()
			for b.Loop() {
				rec, err := m.Get(b.Context(), keys[0])
				if err != nil {
					b.Fatal(err)
				}
				var done int64
				for o := range rec.List.All() {
					done += o.Status.Completed
				}
				if want := int64(n) * int64(n-1) / 2; done != want {
					b.Fatalf("%d bytes are done, want %d", done, want)
				}
			}
		})
	}
}

// BenchmarkMapUpdate changes one operation and stores the record.
func BenchmarkMapUpdate(b *testing.B) {
	for _, n := range sizes {
		for _, k := range []int{1, 64, 1000} {
			if n*k > 1_000_000 {
				continue
			}
			b.Run(fmt.Sprintf("operations=%d/keys=%d", n, k), func(b *testing.B) {
				keys, list := benchKeys(k), benchList(b, n)
				m := benchMap(b, keys, list)
				var one operations.Operation
				for o := range list.All() {
					one = o
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					one.Status.Total = int64(i)
					if _, err := m.Update(b.Context(), keys[i%k], func(l *operations.List) error { return l.Set(one) }); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkEncode makes the file.
func BenchmarkEncode(b *testing.B) {
	for _, n := range []int{1, 100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("operations=%d", n), func(b *testing.B) {
			list := benchList(b, n)
			var size int
			b.ReportAllocs()
			for b.Loop() {
				data, err := operations.BackupForm.Encode(testKey, list)
				if err != nil {
					b.Fatal(err)
				}
				size = len(data)
			}
			b.ReportMetric(float64(size), "bytes")
		})
	}
}

// BenchmarkDecode reads the file, without and with keys in each entry that are not known.
func BenchmarkDecode(b *testing.B) {
	for _, n := range []int{1, 100, 10_000, 100_000} {
		data, err := operations.BackupForm.Encode(testKey, benchList(b, n))
		if err != nil {
			b.Fatal(err)
		}
		unknown := strings.ReplaceAll(string(gunzip(b, data)), `"nTotal":`, `"nRetries":3,"nTotal":`)
		for name, file := range map[string][]byte{"known": data, "unknown": zipped(b, "", unknown)} {
			b.Run(fmt.Sprintf("operations=%d/keys=%s", n, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := operations.BackupForm.Decode(testKey, file); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkMapUpdateBesideHungKey is BenchmarkMapUpdate of one operation while a store call for another key never ends.
func BenchmarkMapUpdateBesideHungKey(b *testing.B) {
	for _, hung := range []bool{false, true} {
		b.Run(fmt.Sprintf("hung=%v", hung), func(b *testing.B) {
			keys := benchKeys(64)
			store := newRecorder(operations.NewMemoryStore())
			stuck := operations.BackupForm.FileName(keys[63].Name)
			began := make(chan struct{})
			store.hooks(func(ctx context.Context, _, name string) error {
				if name != stuck {
					return nil
				}
				close(began)
				<-ctx.Done()
				return context.Cause(ctx)
			}, nil)
			m, err := operations.NewMap(store, operations.BackupForm, operations.MapOptions{})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			var wg sync.WaitGroup
			if hung {
				wg.Go(func() { _, _ = m.Get(ctx, keys[63]) })
				<-began
			}
			one := op("a")
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				one.Status.Total = int64(i)
				_, err := m.Update(ctx, keys[i%63], func(l *operations.List) error {
					if err := l.Merge(one); err != nil {
						return err
					}
					return l.Set(one)
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			cancel()
			wg.Wait()
		})
	}
}
