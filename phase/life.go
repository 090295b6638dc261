package phase

import (
	"context"
	"fmt"
	"time"
)

// Life is what is known of a process that owns work. The zero Life is LifeUnknown.
type Life uint8

// What can be known of an owner.
const (
	// LifeUnknown: nothing is known. It is not taken for dead.
	LifeUnknown Life = iota
	// Live: its last sign of life is recent enough, or its clock is ahead of ours.
	Live
	// Dead: its last sign of life is too old, or it gave up or lost what it held.
	Dead
)

// String returns the life as one lower-case word.
func (l Life) String() string {
	switch l {
	case LifeUnknown:
		return "unknown"
	case Live:
		return "live"
	case Dead:
		return "dead"
	default:
		return fmt.Sprintf("life(%d)", uint8(l))
	}
}

// Heartbeat is the last sign of life of one owner, as a Lease or a database row keeps it. The zero Heartbeat says that
// there is none.
type Heartbeat struct {
	// Renewed is when the owner last said that it lives, by its own clock; zero if it never did.
	Renewed time.Time
	// ValidFor is how long such a sign is good; the owner stops its work before that has passed without another.
	ValidFor time.Duration
	// Deposed says that the owner gave up what it held, or that somebody else holds it now: the owner has stopped, however
	// recent Renewed is.
	Deposed bool
}

// Life returns what the heartbeat says at the time now, if the owner's clock and ours are at most skew apart. It is pure.
// A heartbeat without a time, or that is good for no time at all, says nothing, unless the owner is deposed.
func (h Heartbeat) Life(now time.Time, skew time.Duration) Life {
	switch {
	case h.Deposed:
		return Dead
	case h.Renewed.IsZero() || h.ValidFor <= 0:
		return LifeUnknown
	case now.After(h.Until(skew)):
		return Dead
	default:
		return Live
	}
}

// Until returns the end of the time in which the owner may still live; zero if the heartbeat says nothing or the owner is
// deposed.
func (h Heartbeat) Until(skew time.Duration) time.Time {
	if h.Deposed || h.Renewed.IsZero() || h.ValidFor <= 0 {
		return time.Time{}
	}
	return h.Renewed.Add(h.ValidFor).Add(max(skew, 0))
}

// Liveness tells of the processes that own work, by the identity that they wrote as ApplierOptions.Owner. Package phasekube
// has one that reads Leases. Implementations must be safe for concurrent use and return when ctx ends.
type Liveness interface {
	// Heartbeat returns the last sign of life of owner, which is not empty, read without a cache. An owner of whom nothing is
	// known is the zero Heartbeat and no error. An error means that nothing could be read; the owner is then not touched.
	Heartbeat(ctx context.Context, owner string) (Heartbeat, error)
}

// LivenessFunc is a function as a [Liveness].
type LivenessFunc func(ctx context.Context, owner string) (Heartbeat, error)

// Heartbeat calls f.
func (f LivenessFunc) Heartbeat(ctx context.Context, owner string) (Heartbeat, error) {
	return f(ctx, owner)
}

// SingleOwner is the [Liveness] of a program of which one process runs at a time, under whatever identity: every other
// owner is dead. It is right only where something outside makes sure of that, such as a StatefulSet of one replica.
func SingleOwner() Liveness { return singleOwner{} }

type singleOwner struct{}

func (singleOwner) Heartbeat(context.Context, string) (Heartbeat, error) {
	return Heartbeat{Deposed: true}, nil
}
