package page

import (
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/tipstaff/tipstaff"
)

// said is what a record says to people.
type said struct {
	Text string
	Bad  bool          // it tells of something that failed or was refused
	Took time.Duration // what it tells of; 0: it tells no duration
}

// teller is how records of a kind are shown: in which group, and by which sentence.
type teller struct {
	group string
	tell  func(*tipstaff.Event) said
}

// groups are what the journal is filtered by, in the order in which they are offered.
var groups = []string{"lifecycle", "ownership", "effects", "gates", "agents", "stages", "bounds", "delivery", "other"}

// groupOf is the group of a kind.
func groupOf(k tipstaff.Kind) string {
	if t, ok := tellers[k]; ok {
		return t.group
	}
	return "other"
}

// sentence tells what a record says. A kind that this version does not know is named.
func sentence(e *tipstaff.Event) said {
	if t, ok := tellers[e.Kind]; ok {
		return t.tell(e)
	}
	return said{Text: string(e.Kind)}
}

// tells is the teller of a kind whose body is a T, by a template of the sentence.
func tells[T any](group, text string) teller {
	return judges(group, text, func(*T) (bool, int64) { return false, 0 })
}

// fails is that of a kind which tells of a failure.
func fails[T any](group, text string) teller {
	return judges(group, text, func(*T) (bool, int64) { return true, 0 })
}

// judges is that of a kind whose body says whether something failed, and how many milliseconds
// it took.
func judges[T any](group, text string, judge func(*T) (bad bool, ms int64)) teller {
	parsed := sync.OnceValue(func() *template.Template {
		return template.Must(template.New("sentence").Funcs(phrases).Parse(text))
	})
	return teller{group, func(e *tipstaff.Event) said {
		body := tipstaff.BodyOf[T](e)
		bad, ms := judge(&body)
		var b strings.Builder
		if parsed().Execute(&b, &body) != nil { // the template does not fit the type
			return said{Text: string(e.Kind), Bad: bad}
		}
		return said{b.String(), bad, time.Duration(ms) * time.Millisecond}
	}}
}

// phrases are what sentences write values with.
var phrases = template.FuncMap{
	"amount": tipstaff.AmountText,
	"brief":  brief,
	"clock":  func(t time.Time) string { return clock{t}.Text() },
	"join":   func(all []string) string { return strings.Join(all, ", ") },
	"plural": tipstaff.Plural,
	"step":   stepWords,
	"holds":  func(b *bool) bool { return b != nil && *b },
	"words":  words,
}

// brief is the beginning of a digest or a commit.
func brief(digest string) string {
	digest = strings.TrimPrefix(digest, "sha256:")
	return digest[:min(12, len(digest))]
}

// stepWords is the status of a node as a verb.
func stepWords(status string) string {
	switch status {
	case tipstaff.StepStarted:
		return "began"
	case tipstaff.StepRefused, tipstaff.StepCancelled:
		return "was " + status
	case tipstaff.StepUncertain:
		return "is in doubt: nobody knows whether it happened"
	case tipstaff.StepCarried:
		return "was completed by an earlier revision"
	}
	return status
}
