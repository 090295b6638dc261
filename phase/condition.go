package phase

import (
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Types of the conditions that [Change.Conditions] writes. Ready, Reconciling and Stalled are those that kstatus reads.
const (
	// ConditionReady is true when the work ended and nothing failed.
	ConditionReady = "Ready"
	// ConditionReconciling is true while the work has not ended.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is true when the work ended and something failed: no success will come any more.
	ConditionStalled = "Stalled"
	// ConditionFinished is true when the work has ended, however; it is the one to wait for.
	ConditionFinished = "Finished"
)

// conditionReason is what the API server accepts as the reason of a condition.
var conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// Conditions returns old with the four conditions that c makes true or false, for the object's generation; it is pure and
// leaves old as it is. Other conditions and their order are kept, those that are missing are appended. The time of a
// condition changes with its status only.
//
// Kstatus and `kubectl wait` then see: InProgress while the work has not ended, Current after a success, Failed after any
// other end; `kubectl wait --for=condition=Finished` returns at every end. The reason of each is c's, or the phase if c
// has none, or the class if the phase is no word that the API server accepts. C needs its Class, as every change has that
// an [Applier] gives to an Object or to hooks.
func (c Change[P]) Conditions(generation int64, old []metav1.Condition) []metav1.Condition {
	ended := c.Class == ClassTerminal
	conditions := slices.Clone(old)
	for _, is := range []struct {
		kind string
		true bool
	}{
		{ConditionReady, ended && !c.Failing},
		{ConditionReconciling, !ended},
		{ConditionStalled, ended && c.Failing},
		{ConditionFinished, ended},
	} {
		next := metav1.Condition{
			Type: is.kind, Status: metav1.ConditionFalse, ObservedGeneration: generation,
			LastTransitionTime: metav1.NewTime(c.At), Reason: c.conditionReason(), Message: joined(string(c.To), c.Message),
		}
		if is.true {
			next.Status = metav1.ConditionTrue
		}
		i := slices.IndexFunc(conditions, func(have metav1.Condition) bool { return have.Type == is.kind })
		if i < 0 {
			conditions = append(conditions, next)
			continue
		}
		if have := conditions[i]; have.Status == next.Status && !have.LastTransitionTime.IsZero() {
			next.LastTransitionTime = have.LastTransitionTime
		}
		conditions[i] = next
	}
	return conditions
}

// conditionReason is never empty: the API server refuses a condition without a reason.
func (c Change[P]) conditionReason() string {
	for _, word := range []string{c.Reason, string(c.To)} {
		if len(word) <= maxConditionReason && conditionReason.MatchString(word) {
			return word
		}
	}
	class := c.Class.String()
	return strings.ToUpper(class[:1]) + strings.TrimFunc(class[1:], func(r rune) bool { return r < 'a' || r > 'z' })
}

const maxConditionReason = 1024 // bytes; the API server's limit
