package operations

// NewFileStoreFS makes a file store on another file system than the real one.
var NewFileStoreFS = newFileStore

// PollerKeys returns how many keys the poller remembers.
func PollerKeys(p *Poller) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.keys)
}

// Object and Array find where the parts of a JSON text stand, ValueEnd where its first value ends.
var (
	Object   = object
	Array    = array
	ValueEnd = valueEnd
)

// MapKeys returns how many keys the map knows.
func MapKeys(m *Map) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries)
}
