package csisnapshot

import (
	"cmp"
	"slices"
	"strings"
)

// batches puts pods that share a volume or a key together. The volumes of components without a hooked pod, and those of
// no pod, end up in one last batch.
func batches(users []user, volumes map[claimKey]Volume) []Batch {
	sets := newSets(len(users))
	byClaim, byKey := make(map[claimKey]int, len(volumes)), map[claimKey]int{}
	for i, u := range users {
		for _, name := range u.pod.Claims {
			sets.join(byClaim, claimKey{u.pod.Namespace, name}, i)
		}
		if u.key != "" {
			sets.join(byKey, claimKey{u.pod.Namespace, u.key}, i)
		}
	}
	hooked := make(map[int]bool)
	for i, u := range users {
		hooked[sets.root(i)] = hooked[sets.root(i)] || u.pod.Hooked
	}

	found, rest := map[int]*Batch{}, &Batch{}
	of := func(i int) *Batch {
		root := sets.root(i)
		if !hooked[root] {
			return rest
		}
		if found[root] == nil {
			found[root] = &Batch{Hooked: true}
		}
		return found[root]
	}
	for i, u := range users {
		b := of(i)
		b.Pods = append(b.Pods, u.pod)
	}
	for key, v := range volumes {
		b := rest
		if i, ok := byClaim[key]; ok {
			b = of(i)
		}
		b.Volumes = append(b.Volumes, v)
	}
	return ordered(found, rest)
}

// ordered returns the batches in the order in which they are cut.
func ordered(found map[int]*Batch, rest *Batch) []Batch {
	out := make([]Batch, 0, len(found)+1)
	for _, b := range found {
		b.sort()
		out = append(out, *b)
	}
	slices.SortFunc(out, func(a, b Batch) int { return comparePods(a.Pods[0], b.Pods[0]) })
	if len(rest.Volumes) > 0 {
		rest.sort()
		out = append(out, *rest)
	}
	return out
}

// sort puts pods and volumes in the order of their names.
func (b *Batch) sort() {
	slices.SortFunc(b.Pods, comparePods)
	slices.SortFunc(b.Volumes, func(x, y Volume) int {
		return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Claim, y.Claim))
	})
}

func comparePods(a, b Pod) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// sets are disjoint sets of the numbers 0..n-1.
type sets []int

func newSets(n int) sets {
	s := make(sets, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// root is the number that stands for i's set.
func (s sets) root(i int) int {
	for s[i] != i {
		s[i] = s[s[i]]
		i = s[i]
	}
	return i
}

// join unites i with whatever was joined under the key before.
func (s sets) join(first map[claimKey]int, key claimKey, i int) {
	if j, ok := first[key]; ok {
		s[s.root(i)] = s.root(j)
		return
	}
	first[key] = i
}
