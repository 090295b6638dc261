package operationstest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"

	"github.com/sheetanchor/sheetanchor/operations"
)

// contract checks each sentence of the store's contract, with one writer.
func contract(c *check) {
	s, ctx := c.open(), c.Context()
	name, caps := c.document("one"), s.Capabilities()
	if _, _, err := s.Read(ctx, name); !errors.Is(err, operations.ErrNotFound) {
		c.errorf("Read of a document that does not exist = %v, want ErrNotFound", err)
	}
	if _, err := s.Write(ctx, name, []byte("x"), "no-such-version"); caps.ConditionalReplace && !errors.Is(err, operations.ErrConflict) {
		c.errorf("Write that replaces a document that does not exist = %v, want ErrConflict", err)
	}
	own := []byte("one")
	v1 := c.write(s, name, own, "")
	own[0] = 'X' // it is the caller's again
	c.holds(s, name, []byte("one"), v1)
	if _, err := s.Write(ctx, name, []byte("x"), ""); caps.ConditionalCreate && !errors.Is(err, operations.ErrConflict) {
		c.errorf("Write that creates a document that exists = %v, want ErrConflict", err)
	}
	v2 := c.write(s, name, []byte("two"), v1)
	if v1 == v2 {
		c.errorf("two different documents have the version %q", v1)
	}
	if _, err := s.Write(ctx, name, []byte("x"), v1); caps.ConditionalReplace && !errors.Is(err, operations.ErrConflict) {
		c.errorf("Write that replaces an old version = %v, want ErrConflict", err)
	}
	if fenced(s) {
		c.holds(s, name, []byte("two"), v2)
		c.holds(c.open(), name, []byte("two"), v2)
	}
	if data, _, err := s.Read(ctx, name); err == nil && len(data) > 0 {
		data[0] = 'X' // it is the caller's
		if again, _, err := s.Read(ctx, name); err != nil || again[0] == 'X' {
			c.errorf("what Read returns is shared with the store: %q, %v", again, err)
		}
	}
}

// write writes a document, which must succeed.
func (c *check) write(s operations.Store, name string, data []byte, old string) string {
	c.Helper()
	version, err := s.Write(c.Context(), name, data, old)
	if err != nil || version == "" {
		c.fatalf("Write of %q over version %q = %q, %v, want a version", name, old, version, err)
	}
	return version
}

// holds checks that the store has a document.
func (c *check) holds(s operations.Store, name string, data []byte, version string) {
	c.Helper()
	got, v, err := s.Read(c.Context(), name)
	if err != nil || !bytes.Equal(got, data) || v != version {
		c.errorf("Read of %q = %d bytes (%.20q), version %q, %v; want %d bytes (%.20q), version %q", name, len(got), got, v, err, len(data), data, version)
	}
}

// documents checks that every content is kept to the byte.
func documents(c *check) {
	s := c.open()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	random := make([]byte, 64<<10)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	bomb := append([]byte{0x1f, 0x8b, 8, 0}, bytes.Repeat([]byte{0}, 500)...)
	contents := map[string][]byte{
		"empty": {}, "zero": {0}, "every-byte": all, "random": random, "half-a-gzip": bomb, "text": []byte("é\xff\r\n<>&\u2028"),
		"compressible": bytes.Repeat([]byte("operation"), 20_000),
	}
	for name, data := range contents {
		name = c.document(name)
		c.holds(s, name, data, c.write(s, name, data, ""))
	}
	name := c.document("changing")
	version := ""
	for _, data := range [][]byte{all, random, {}, all, bomb, []byte("{}")} {
		version = c.write(s, name, data, version)
		c.holds(s, name, data, version)
	}
}

// docNames checks that names are neither mixed up nor able to leave the store.
func docNames(c *check) {
	s := c.open()
	good := []string{"a/b", "a/b.json.gz", "a/B", "a/b-", "a-b", "a_b", "a/b/c/d/e/f", "a/" + strings.Repeat("n", 253), "a/" + strings.Repeat("n", 252) + "m"}
	versions := map[string]string{}
	for _, name := range good {
		versions[name] = c.write(s, c.document(name+".doc"), []byte(name), "")
	}
	for _, name := range good {
		c.holds(s, c.document(name+".doc"), []byte(name), versions[name])
	}
	for _, name := range []string{"", "/", ".", "..", "../a", "a/../../b", "/etc/a", "a//b", "a/", "a\x00"} {
		if _, err := s.Write(c.Context(), name, []byte("x"), ""); err == nil {
			c.errorf("Write of the name %q gave no error", name)
		}
		if _, _, err := s.Read(c.Context(), name); err == nil {
			c.errorf("Read of the name %q gave no error", name)
		}
	}
}

// size checks the limit that the store is said to have.
func size(c *check) {
	if c.opts.MaxBytes <= 0 {
		return
	}
	s, name := c.open(), c.document("large")
	data := make([]byte, c.opts.MaxBytes+1)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range data {
		data[i] = byte(rng.Uint32()) // it cannot be compressed
	}
	most := data[:c.opts.MaxBytes]
	version := c.write(s, name, most, "")
	if _, err := s.Write(c.Context(), name, data, version); !errors.Is(err, operations.ErrTooLarge) {
		c.errorf("Write of %d bytes = %v, want ErrTooLarge", len(data), err)
	}
	c.holds(s, name, most, version)
}

// errEnded is why the contexts of the cases end.
var errEnded = errors.New("the context was ended by the test")

// endedContext checks that nothing is done for a caller who has gone.
func endedContext(c *check) {
	s, name := c.open(), c.document("one")
	version := c.write(s, name, []byte("one"), "")
	ended, cancel := context.WithCancelCause(c.Context())
	cancel(errEnded)
	isEnd := func(err error) bool { return errors.Is(err, errEnded) || errors.Is(err, context.Canceled) }
	if _, _, err := s.Read(ended, name); !isEnd(err) {
		c.errorf("Read with an ended context = %v, want its error or cause", err)
	}
	if _, err := s.Write(ended, name, []byte("two"), version); !isEnd(err) {
		c.errorf("Write with an ended context = %v, want its error or cause", err)
	}
	c.holds(s, name, []byte("one"), version)
}

// removal checks a store that can remove.
func removal(c *check) {
	s, name := c.open(), c.document("one")
	r, ok := s.(operations.Remover)
	if !ok {
		return
	}
	err := r.Remove(c.Context(), name, "no-such-version")
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	if err == nil && s.Capabilities().ConditionalReplace {
		c.errorf("Remove of a document that does not exist gave no error")
	}
	v1 := c.write(s, name, []byte("one"), "")
	v2 := c.write(s, name, []byte("two"), v1)
	if fenced(s) {
		if err := r.Remove(c.Context(), name, v1); !errors.Is(err, operations.ErrConflict) {
			c.errorf("Remove of an old version = %v, want ErrConflict", err)
		}
		c.holds(s, name, []byte("two"), v2)
	}
	if err := r.Remove(c.Context(), name, v2); err != nil {
		c.errorf("Remove = %v", err)
	}
	if _, _, err := c.open().Read(c.Context(), name); !errors.Is(err, operations.ErrNotFound) {
		c.errorf("Read of what was removed = %v, want ErrNotFound", err)
	}
	if err := r.Remove(c.Context(), name, v2); !errors.Is(err, operations.ErrNotFound) {
		c.errorf("Remove of what was removed = %v, want ErrNotFound", err)
	}
	if _, err := s.Write(c.Context(), name, []byte("x"), v2); fenced(s) && !errors.Is(err, operations.ErrConflict) {
		c.errorf("Write that replaces what was removed = %v, want ErrConflict", err)
	}
	v3 := c.write(s, name, []byte("three"), "")
	c.holds(s, name, []byte("three"), v3)
}
