package csisnapshot

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// physicalID names a physical snapshot.
type physicalID struct{ driver, handle string }

// physicalID is empty for a content without a handle.
func (c *Content) physicalID() physicalID {
	if c.physical() == "" {
		return physicalID{}
	}
	return physicalID{c.Driver, c.physical()}
}

// usersAge is how old a list of contents may be by which a physical snapshot is deleted.
const usersAge = time.Second

// users knows which physical snapshots contents of others refer to, as a list tells that is at most usersAge old.
type users struct {
	lists singleflight.Group // many ask at the same time

	mu sync.Mutex
	at time.Time             // when the list was begun
	by map[physicalID]string // the content's name
}

// of is the name of a content of somebody else's, or of one that was made to restore it, that refers to the physical
// snapshot; empty if there is none.
func (u *users) of(ctx context.Context, r *remover, id physicalID) (string, error) {
	u.mu.Lock()
	by, ok := u.by[id], u.by != nil && time.Since(u.at) < usersAge
	u.mu.Unlock()
	if ok {
		return by, nil
	}
	all, err, _ := u.lists.Do("", func() (any, error) { return u.list(ctx, r) })
	if err != nil {
		return "", err
	}
	used, _ := all.(map[physicalID]string)
	return used[id], nil
}

func (u *users) list(ctx context.Context, r *remover) (map[physicalID]string, error) {
	at, used := time.Now(), map[physicalID]string{}
	err := r.eachContent(ctx, func(vsc Content) {
		if r.names.ofAnother(r.owner, &vsc) {
			used[vsc.physicalID()] = vsc.Name
		}
	})
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.at, u.by = at, used
	return used, nil
}

// unused reports whether the item's physical snapshot may be deleted. If somebody refers to it the item ends, and its
// content, if only it can still delete the physical snapshot or this call turned its policy, says Retain again.
func (r *remover) unused(ctx context.Context, m *removal) (bool, error) {
	vsc := m.content
	if r.users == nil || vsc == nil || vsc.Terminating() || vsc.physical() == "" || r.names.borrowed(vsc) {
		return true, nil
	}
	by, err := r.users.of(ctx, r, vsc.physicalID())
	if err != nil {
		return false, fmt.Errorf("look who uses the physical snapshot of content %s: %w", vsc.Name, err)
	}
	if by == "" {
		return true, nil
	}
	if vsc.DeletionPolicy != DeletionPolicyRetain && (m.turned || m.snapshot == nil) {
		if err := r.setPolicy(ctx, vsc, DeletionPolicyRetain); err != nil {
			return false, err
		}
	}
	m.Removal, m.done = inUse(m.Removal, by), true
	return false, nil
}
