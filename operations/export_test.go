package operations

// NewFileStoreFS makes a file store on another file system than the real one.
var NewFileStoreFS = newFileStore

// PollerKeys returns how many keys the poller remembers.
func PollerKeys(p *Poller) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.keys)
}
