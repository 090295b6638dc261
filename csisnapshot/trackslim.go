package csisnapshot

// slim lets go of what was read of the objects and is not needed again, so that thousands that are waited for take little
// memory. What their finalizers and annotations tell is in the state, which keeps it. The objects themselves may be the
// user's and are not changed.
func (e *entry) slim() {
	if vs := e.snapshot; vs != nil && !vs.isSlim() {
		e.snapshot = new(*vs)
		e.snapshot.Meta = vs.slim()
	}
	if vsc := e.content; vsc != nil && !vsc.isSlim() {
		e.content = new(*vsc)
		e.content.Meta = vsc.slim()
	}
}

func (m Meta) isSlim() bool { return m.Labels == nil && m.Annotations == nil && m.Finalizers == nil }

func (m Meta) slim() Meta {
	m.Labels, m.Annotations, m.Finalizers = nil, nil, nil
	return m
}
