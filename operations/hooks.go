package operations

import (
	"context"

	"github.com/go-logr/logr"
)

// MapHooks are functions that a [Map] calls; each may be nil. They run in the turn of the key, so that they are called in
// the order of the changes and never twice at once for one key. They must be quick, because the next change of the key
// waits for them, and of the map they may call only [Map.Get] for it. A panic is logged, and changes nothing.
type MapHooks struct {
	// Changed is called after a change of a record was committed, and after a record was loaded or completed: enough to
	// show progress without reading the store. A change that failed is not told.
	Changed func(ctx context.Context, c Change)
}

// Change is what became of a record.
type Change struct {
	Key Key
	// Before and After count the operations by how they ended. Before is the zero Summary when nothing was known.
	Before, After Summary
	// Operations are copies of those that are new or have changed, in the order of the list. A completion has none.
	Operations []Operation
	// Stored says that the store holds the record too; otherwise it was only put.
	Stored bool
	// Completed says that the key was completed, so that this is its last change.
	Completed bool
}

// tell calls the hooks with what the turn has done to the committed state.
func (t *turn) tell(ctx context.Context) {
	changed, from, to := t.m.opts.Hooks.Changed, t.before, t.state
	if changed == nil || to == nil || !t.kept || from != nil && from.rev == to.rev {
		return
	}
	if from == nil {
		from = &state{}
	}
	c := Change{
		Key: t.key, Before: from.count(), After: to.count(), Stored: to.completed || !to.dirty() && to.pending == nil, Completed: to.completed,
	}
	if !to.completed {
		c.Operations = to.list.since(from.list)
	}
	t.setTelling(true)
	err := contain(func() error {
		changed(ctx, c)
		return nil
	})
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "hook of the operations map", "namespace", t.key.Namespace, "name", t.key.Name)
	}
}

func (st *state) count() Summary {
	if st.completed {
		return st.summary
	}
	return st.list.Summary()
}

// since returns copies of the operations that old does not have, or has otherwise.
func (l List) since(old List) []Operation {
	var out []Operation
	for i, op := range l.ops {
		at := i
		if i >= len(old.ops) || old.ops[i].ID != op.ID {
			at = old.find(op.ID)
		}
		if at < 0 || old.ops[at] != op && !old.ops[at].Equal(*op) {
			out = append(out, op.clone())
		}
	}
	return out
}
