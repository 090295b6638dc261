package operations_test

import "strings"

// modelState is the sequential model of one key: what the map holds, what the store holds, and what may still reach
// the store. Every call is one step from a state to one of a few.
type modelState struct {
	warm, done bool
	mem        string // committed content
	exists     bool
	rev        int8
	knownVer   int8 // of the store, as the map knows it; 0: no document
	knownCon   string

	pending    bool // a write had no answer
	pendingCon string

	ver int8 // of the store; 0: no document
	con string

	late [4]lateWrite // writes that may still happen; an empty con is none
	void string       // contents of writes that were found not to have happened, each between bars

	revs    int8 // given out
	records [modelTotal]int8
}

// lateWrite is a write with its condition.
type lateWrite struct {
	con string
	ver int8
}

// linearizable reports whether some order of the calls, in which none comes before one that had ended when it began,
// has the results of the history in the model.
func linearizable(history []call) bool {
	type node struct {
		taken uint64
		state modelState
	}
	seen := map[node]bool{}
	var search func(node) bool
	search = func(at node) bool {
		if at.taken == 1<<len(history)-1 {
			return true
		}
		if seen[at] {
			return false
		}
		seen[at] = true
		for i, c := range history {
			if at.taken&(1<<i) != 0 || !mayBeNext(history, at.taken, c) {
				continue
			}
			for _, from := range at.state.withInner() {
				for _, to := range from.step(i, c) {
					if search(node{at.taken | 1<<i, to}) {
						return true
					}
				}
			}
		}
		return false
	}
	return search(node{})
}

func mayBeNext(history []call, taken uint64, c call) bool {
	for j, other := range history {
		if taken&(1<<j) == 0 && other.end < c.begin {
			return false
		}
	}
	return true
}

// withLate returns the state without and, if it can happen, with each late write done.
func (s modelState) withLate() []modelState {
	out := []modelState{s}
	for i, w := range s.late {
		if w.con != "" && w.ver == s.ver {
			after := s
			after.store(w.con)
			after.late[i] = lateWrite{}
			out = append(out, after)
		}
	}
	return out
}

// withInner adds the states in which a call that has not ended has already settled a write without answer, which others
// see before that call's own change.
func (s modelState) withInner() []modelState {
	var out []modelState
	for _, s := range s.withLate() {
		out = append(out, s)
		if !s.warm || !s.pending {
			continue
		}
		for _, o := range s.settle() {
			if o.class == "" {
				out = append(out, o.s.withLate()...)
			}
		}
	}
	return out
}

// postpone lets a write happen later, if there is room. One that can never happen any more makes room.
func (s *modelState) postpone(w lateWrite) {
	for i, old := range s.late {
		if old.con == "" || old.ver < s.ver {
			s.late[i] = w
			return
		}
	}
}

// owns reports whether the store holds what this map wrote.
func (s *modelState) owns() bool {
	return s.ver > 0 && (s.knownVer > 0 && s.con == s.knownCon || strings.Contains(s.void, "|"+s.con+"|"))
}

func (s *modelState) store(con string) { s.ver, s.con = s.ver+1, con }

func (s *modelState) newRev() { s.revs++; s.rev = s.revs }

func (s *modelState) load() {
	s.warm, s.done, s.mem, s.exists = true, false, s.con, s.ver > 0
	s.knownVer, s.knownCon, s.pending, s.void = s.ver, s.con, false, ""
	s.newRev()
}

func (s *modelState) dirty() bool { return s.exists && (s.knownVer == 0 || s.mem != s.knownCon) }

// written makes con what the map holds and knows to be stored.
func (s *modelState) written(con string) {
	if !s.exists || s.mem != con {
		s.newRev()
	}
	s.mem, s.exists, s.knownVer, s.knownCon, s.pending, s.void = con, true, s.ver, con, false, ""
}

// outcome is a state and the class of result that goes with it.
type outcome struct {
	s     modelState
	class string
}

// open is what every change begins with; "" goes on.
func (s modelState) open() []outcome {
	failed := outcome{s, "failed"}
	if !s.warm {
		s.load()
	}
	return append(s.settle(), failed, outcome{s, "failed"})
}

func (s modelState) settle() []outcome {
	if s.done {
		return []outcome{{s, "completed"}}
	}
	if !s.pending {
		return []outcome{{s, ""}}
	}
	if !s.recognize() {
		return []outcome{{s, "conflict"}}
	}
	return []outcome{{s, ""}}
}

// recognize takes over what this map wrote, and reports whether it did write it.
func (s *modelState) recognize() bool {
	switch {
	case s.pending && s.ver > 0 && s.con == s.pendingCon:
		s.written(s.con)
	case s.ver == s.knownVer || s.owns():
		s.knownVer, s.knownCon = s.ver, s.con
		if s.pending {
			s.pending, s.void = false, s.void+"|"+s.pendingCon+"|"
		}
	default:
		return false
	}
	return true
}

// write is one write to the store, and one more when a late write of the map's own was in its way.
func (s modelState) write(con string) []outcome {
	unknown := s
	unknown.pending, unknown.pendingCon = true, con
	out := []outcome{{unknown, "failed"}}
	if s.ver <= s.knownVer {
		late := unknown
		late.postpone(lateWrite{con, s.knownVer})
		out = append(out, outcome{late, "failed"})
	}
	if s.ver == s.knownVer {
		unknown.store(con)
		out = append(out, outcome{unknown, "failed"})
		s.store(con)
		s.written(con)
		return append(out, outcome{s, ""})
	}
	for _, s := range s.withLate() { // it is read what is in the way
		switch {
		case s.ver > 0 && s.con == con:
			s.written(con)
			out = append(out, outcome{s, ""})
		case s.owns():
			s.knownVer, s.knownCon = s.ver, s.con
			out = append(out, s.write(con)...)
		default:
			out = append(out, outcome{s, "conflict"})
		}
	}
	return out
}

// commit makes con the content, stored when it must be.
func (s modelState) commit(con string, durable bool) []outcome {
	next := s
	if !s.exists || s.mem != con {
		next.mem, next.exists = con, true
		next.newRev()
	}
	if durable && next.dirty() {
		return s.write(con)
	}
	return []outcome{{next, ""}}
}

// step returns the states in which the call may leave the model, given what came of it.
func (s modelState) step(i int, c call) []modelState {
	var out []modelState
	for _, o := range s.outcomes(c) {
		if o.class != c.class {
			continue
		}
		if c.class == "" && returnsRecord(c.kind) {
			if o.s.mem != c.got {
				continue
			}
			o.s.records[i] = o.s.rev
		}
		out = append(out, o.s)
	}
	return out
}

func returnsRecord(kind string) bool {
	return kind != "Upload" && kind != "Evict" && kind != "Complete"
}

func (s modelState) outcomes(c call) []outcome {
	nothing := outcome{s, "failed"}
	switch c.kind {
	case "Get":
		if !s.warm {
			s.load()
		}
		return []outcome{nothing, {s, map[bool]string{true: "completed"}[s.done]}}
	case "Load":
		s.load()
		return []outcome{nothing, {s, ""}}
	case "Evict":
		s.warm, s.done, s.pending, s.void = false, false, false, ""
		return []outcome{{s, ""}}
	case "Upload":
		if !s.warm || s.done {
			return []outcome{nothing, {s, ""}}
		}
		return then(append(s.settle(), nothing), func(s modelState) []outcome {
			if !s.dirty() {
				return []outcome{{s, ""}}
			}
			return s.write(s.mem)
		})
	case "Update":
		return then(s.open(), func(s modelState) []outcome {
			return s.commit(strings.TrimPrefix(s.mem+","+c.content, ","), true)
		})
	case "Complete":
		return s.complete()
	default:
		return s.put(c)
	}
}

func (s modelState) put(c call) []outcome {
	var base int8
	if c.base >= 0 {
		base = s.records[c.base]
	}
	if !s.warm && base != 0 {
		return []outcome{{s, "failed"}, {s, "conflict"}}
	}
	before := s
	return then(s.open(), func(s modelState) []outcome {
		arrived := before.warm && before.pending && before.rev == base && s.mem == c.content
		if !arrived && base != s.rev && (base != 0 || s.exists) {
			return []outcome{{s, "conflict"}}
		}
		return s.commit(c.content, c.kind == "UploadProgressAndPut")
	})
}

func (s modelState) complete() []outcome {
	failed := outcome{s, "failed"}
	if s.warm && s.done {
		return []outcome{{s, ""}, failed}
	}
	ready := []outcome{failed}
	switch {
	case !s.warm:
		s.load()
		ready = append(ready, outcome{s, ""})
	case s.dirty():
		ready = append(ready, s.settle()...)
	default: // it is read, and what somebody else wrote is taken over
		for _, s := range s.withLate() {
			if !s.recognize() {
				s.load()
			}
			ready = append(ready, outcome{s, ""})
		}
	}
	closed := func(s modelState) outcome {
		s.done = true
		return outcome{s, ""}
	}
	return then(append(ready, outcome{s, "failed"}), func(s modelState) []outcome {
		if !s.dirty() {
			return []outcome{closed(s)}
		}
		return then(s.write(s.mem), func(s modelState) []outcome { return []outcome{closed(s)} })
	})
}

// then goes on from the outcomes that are not ends.
func then(from []outcome, next func(modelState) []outcome) []outcome {
	var out []outcome
	for _, o := range from {
		if o.class != "" {
			out = append(out, o)
			continue
		}
		for _, s := range o.s.withLate() {
			out = append(out, next(s)...)
		}
	}
	return out
}
