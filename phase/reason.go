package phase

import (
	"strings"
	"unicode/utf8"
)

// Reasons that the package writes, and reads again. Reasons of your own are one capitalised word each.
const (
	// ReasonCanceled: someone asked for the work to end. Recorded once, the outcome is a cancel.
	ReasonCanceled = "Canceled"
	// ReasonFatal: an error ended the work. Recorded once, the outcome is a failure.
	ReasonFatal = "FatalError"
	// ReasonStoreUnavailable: the object alone was ended because its record could not be written for too long. A terminal
	// object with this reason is the truth, and the record follows it when the store is back.
	ReasonStoreUnavailable = "StoreUnavailable"
	// ReasonDeadlineExceeded: a phase, or the whole work, lasted longer than allowed (see [Deadlines]). The outcome is a failure.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonInterrupted: the process that did the work died in a phase that cannot be done again (see [RestartFail]). The
	// outcome is a failure.
	ReasonInterrupted = "Interrupted"
	// ReasonInvalid: the request was refused before anything was processed.
	ReasonInvalid = "FailedValidation"
	// ReasonOperationsFailed: asynchronous operations failed, were canceled or were abandoned.
	ReasonOperationsFailed = "OperationsFailed"
	// ReasonItemErrors: items or hooks had errors.
	ReasonItemErrors = "ItemErrors"
	// ReasonUnspecified: something failed and nobody said what. A failure is never recorded without a reason.
	ReasonUnspecified = "Unspecified"
)

// maxMessage bounds the message of a change in bytes: it is written into API objects.
const maxMessage = 4096

// SplitReason takes "Word: text" apart into a reason and a message. One capitalised word of letters and digits alone is
// a reason; text that does not start with such a word and a colon is a message, and so is what stands behind a colon and
// a space with no word before them, as in ": Canceled: by the peer". Use it with [JoinReason] where there is one field for
// both, such as Velero's failureReason.
func SplitReason(text string) (reason, message string) {
	text = strings.TrimSpace(text)
	if message, ok := strings.CutPrefix(text, noReason); ok {
		return "", strings.TrimSpace(message)
	}
	word, rest, _ := strings.Cut(text, separator)
	if !isWord(word) {
		return "", text
	}
	return word, strings.TrimSpace(rest)
}

// JoinReason is the reverse of [SplitReason]: that returns the same reason, and the message without space around it. A
// message that alone would be taken for a reason gets a colon and a space in front. A reason that is not one capitalised
// word is joined as part of the message.
func JoinReason(reason, message string) string {
	message = strings.TrimSpace(message)
	if !isWord(reason) {
		message = joined(strings.TrimSpace(reason), message)
		if word, plain := SplitReason(message); word != "" || plain != message {
			return noReason + message
		}
		return message
	}
	return joined(reason, message)
}

const (
	separator = ": "
	noReason  = separator // in front of a message: the reason is empty
)

func joined(reason, message string) string {
	if reason == "" || message == "" {
		return reason + message
	}
	return reason + separator + message
}

func isWord(s string) bool {
	for i, r := range s {
		upper, lower, digit := r >= 'A' && r <= 'Z', r >= 'a' && r <= 'z', r >= '0' && r <= '9'
		if i == 0 && !upper || !upper && !lower && !digit {
			return false
		}
	}
	return s != ""
}

// eventReason splits the text given with an event. For EventCancel and EventFatal the reason is one of the package's,
// because the outcome is read from it; any other text is their message.
func eventReason(ev Event, text string) (reason, message string) {
	reason, message = SplitReason(text)
	if reason != "" {
		text = strings.TrimSpace(text)
	} else {
		text = message
	}
	decides := decisive(reason)
	switch ev {
	case EventCancel, EventCanceled:
		if reason != ReasonCanceled {
			return ReasonCanceled, text
		}
	case EventFatal, EventFailed:
		if reason == ReasonCanceled || !decides {
			return ReasonFatal, text
		}
	case EventInvalid:
		if reason == "" || decides {
			return ReasonInvalid, text
		}
	default:
		if decides { // the outcome is read from these words; other events do not record them
			return "", text
		}
	}
	return reason, message
}

// strengthFatal and more are the reasons that decide the outcome.
const strengthFatal = 2

// decisive says whether the outcome is read from the reason.
func decisive(reason string) bool { return strength(reason) >= strengthFatal }

// strength orders the reasons of a failure: a stronger one is not replaced by a weaker one.
func strength(reason string) int {
	switch reason {
	case "":
		return 0
	case ReasonFatal, ReasonDeadlineExceeded, ReasonInterrupted:
		return strengthFatal
	case ReasonCanceled:
		return 3 // a cancel makes other things fail; it stays the reason
	case ReasonStoreUnavailable:
		return 4 // says that the object is the truth; must not get lost
	default:
		return 1
	}
}

// mergeReason returns what is recorded when a reason is added to the one already there. Of reasons that decide, the first
// stays: a cancel told again changes nothing, and of two fatal errors the first is the cause.
func mergeReason(oldReason, oldMessage, reason, message string) (mergedReason, mergedMessage string) {
	switch was, is := strength(oldReason), strength(reason); {
	case is < was, is == was && decisive(oldReason), reason == oldReason && message == "":
		return oldReason, oldMessage
	default:
		return reason, message
	}
}

// text makes s one that stores give back as it is: JSON and the API server replace what is not UTF-8.
func text(s string) string { return strings.ToValidUTF8(s, string(utf8.RuneError)) }

// clip bounds a message.
func clip(message string) string { return clipTo(message, maxMessage) }

// noted puts a note behind a message, which gives way if there is not room for both.
func noted(message, note string) string {
	note = clip(text(note))
	if message == "" {
		return note
	}
	const between = "; "
	if room := maxMessage - len(note) - len(between); room > 0 {
		return clipTo(message, room) + between + note
	}
	return note
}

// clipTo bounds a text in bytes without cutting a character in two.
func clipTo(message string, most int) string {
	if len(message) <= most {
		return message
	}
	cut := max(most-len("…"), 0)
	for cut > 0 && !utf8.RuneStart(message[cut]) {
		cut--
	}
	return message[:cut] + "…"
}
