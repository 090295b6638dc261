package driver

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
)

// Limit is how many calls of a method are let through. What is over it is answered ResourceExhausted.
type Limit struct {
	// PerSecond is how many calls a second are let through in the long run; more than 0.
	PerSecond float64
	// Burst is how many may come at once; 0: PerSecond rounded up.
	Burst int
}

func (l Limit) validate() error {
	var errs []error
	if !(l.PerSecond > 0) || math.IsInf(l.PerSecond, 1) {
		errs = append(errs, fmt.Errorf("PerSecond %v is not a number above 0", l.PerSecond))
	}
	if l.Burst < 0 {
		errs = append(errs, fmt.Errorf("negative Burst %d", l.Burst))
	}
	return errors.Join(errs...)
}

// methods returns the names of the methods that the driver serves.
func methods() []string {
	var names []string
	for _, service := range []grpc.ServiceDesc{csi.Identity_ServiceDesc, csi.Controller_ServiceDesc, csi.GroupController_ServiceDesc} {
		for _, m := range service.Methods {
			names = append(names, m.MethodName)
		}
	}
	return names
}

func validMethod(name string) error {
	if !slices.Contains(methods(), name) {
		return fmt.Errorf("method %q is not one of the driver's services", name)
	}
	return nil
}

// limiters count calls against limits. A limit that is set begins with a full burst.
type limiters struct {
	mu sync.Mutex // guards by
	by map[string]*rate.Limiter
}

func newLimiters(limits map[string]Limit) *limiters {
	l := &limiters{by: map[string]*rate.Limiter{}}
	for method, limit := range limits {
		l.set(method, limit)
	}
	return l
}

func (l *limiters) set(method string, limit Limit) {
	burst := limit.Burst
	if burst == 0 {
		burst = int(math.Ceil(min(limit.PerSecond, math.MaxInt32)))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.by[method] = rate.NewLimiter(rate.Limit(limit.PerSecond), burst)
}

func (l *limiters) remove(method string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.by, method)
}

// allow reports whether a call may go on.
func (l *limiters) allow(method string, now time.Time) bool {
	l.mu.Lock()
	limiter := l.by[method]
	l.mu.Unlock()
	return limiter == nil || limiter.AllowN(now, 1)
}
