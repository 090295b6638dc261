package backuptest

import "maps"

// stock is what the storage holds, by name, and the names by handle, so that neither look-up goes through all of it.
type stock struct {
	byName  map[string]physical
	handles map[string]string
}

func newStock() stock { return stock{byName: map[string]physical{}, handles: map[string]string{}} }

func (s stock) clone() stock {
	return stock{byName: maps.Clone(s.byName), handles: maps.Clone(s.handles)}
}

// put stores p instead of what has its name.
func (s stock) put(p physical) {
	s.byName[p.Name] = p
	s.handles[p.Handle] = p.Name
}

func (s stock) remove(p physical) {
	delete(s.byName, p.Name)
	delete(s.handles, p.Handle)
}

func (s stock) withHandle(handle string) (physical, bool) {
	name, known := s.handles[handle]
	return s.byName[name], known
}
