package plan

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Intent is what the plan is for. The zero value is that of a document without
// one.
type Intent struct {
	Verb            string       `doc:"verb"`
	Objects         []Object     `doc:"objects"`
	Budget          []Amount     `doc:"budget"`
	Deadline        time.Time    // zero: none
	Anchor          bool         `doc:"anchor"`
	Constraints     []Constraint `doc:"constraints"`
	SuccessCriteria []Criterion  `doc:"success_criteria"`

	json json.RawMessage
}

// Object is something that the intent is about.
type Object struct {
	Name  string `doc:"name,required"`
	Value string `doc:"value"`
	URI   string `doc:"uri"`
	Type  string `doc:"type"`
}

// Amount is a decimal quantity of an asset.
type Amount struct {
	Asset  string `doc:"asset,required"`
	Amount string `doc:"amount,required"`
}

// Constraint is one that must (hard) or should hold. Which fields have a meaning
// depends on Type.
type Constraint struct {
	Type   string          `doc:"type,required,variant"`
	Hard   bool            `doc:"hard"`
	Max    Amount          `doc:"max,required,of=budget"`
	By     time.Time       // of a deadline
	Allow  []string        `doc:"allow,of=jurisdiction"`
	Deny   []string        `doc:"deny,of=jurisdiction"`
	Metric string          `doc:"metric,required,of=quality"`
	Min    string          // of quality
	Rule   string          `doc:"rule,required,of=rule"`
	Policy string          `doc:"policy,required,of=policy"`
	Data   json.RawMessage // x:*
}

// Criterion tells when the intent has succeeded: its type, and the whole of it.
type Criterion struct {
	Type string `doc:"type,required"`
	JSON json.RawMessage
}

// JSON is the intent in RFC 8785 form, {} where there is none.
func (in Intent) JSON() json.RawMessage {
	if in.json == nil {
		return json.RawMessage("{}")
	}
	return in.json
}

// Hash names the intent: sha256:<hex> of JSON.
func (in Intent) Hash() string { return flow.Digest(in.JSON()) }

// CheckDocument reads what a tag cannot say.
func (in *Intent) CheckDocument(f *document.Fields) {
	in.json = document.Raw(f.Value)
	checkExtensible(f, "verb", document.Verbs...)
	in.Deadline = readInstant(f, "deadline")
}

// CheckDocument checks the type. What else a criterion names is its reader's matter.
func (c *Criterion) CheckDocument(f *document.Fields) {
	checkExtensible(f, "type", "delivered", "signed_off", "external", "attestation")
	c.JSON = document.Raw(f.Value)
	f.IgnoreRest()
}

// checkExtensible reports a text that is neither one of the words nor x:<name>.
func checkExtensible(f *document.Fields, name string, words ...string) {
	if v := f.Get(name); v != nil && v.Kind == document.Text && !slices.Contains(words, v.Text) && !document.IsExtension(v.Text) {
		f.Report(document.CodeFieldInvalid, v.At, name, "%s is %q; it must be one of %v or x:<name>", name, document.Brief(v.Text), words)
	}
}

// CheckDocument checks that the amount is one.
func (a *Amount) CheckDocument(f *document.Fields) {
	if v := f.Get("amount"); v != nil && v.Kind == document.Text && !decimalGrammar.MatchString(v.Text) {
		f.Report(document.CodeFieldInvalid, v.At, "amount", `amount is %q; an amount has at most nine decimals, like "0.50"`, document.Brief(v.Text))
	}
}

// readInstant is RFC 3339, or a day, which ends with its last second in UTC.
func readInstant(f *document.Fields, name string) time.Time {
	v := f.Typed(name, document.Text)
	if v == nil {
		return time.Time{}
	}
	if t, err := time.Parse(time.RFC3339, v.Text); err == nil {
		return t.UTC()
	}
	if t, err := time.Parse(time.DateOnly, v.Text); err == nil {
		return t.Add(24*time.Hour - time.Second)
	}
	f.Report(document.CodeFieldInvalid, v.At, name, "%s is %q; a time is written 2026-01-31T18:00:00Z or 2026-01-31", name, document.Brief(v.Text))
	return time.Time{}
}

// CheckDocument reads what a tag cannot say.
func (c *Constraint) CheckDocument(f *document.Fields) {
	checkExtensible(f, "type", "budget", "deadline", "jurisdiction", "quality", "rule", "policy")
	switch c.Type {
	case "budget", "jurisdiction", "rule", "policy":
	case "deadline":
		f.Need("by")
		c.By = readInstant(f, "by")
	case "quality":
		f.Need("min")
		if v := f.Get("min"); v != nil {
			if v.Kind != document.Text && v.Kind != document.Number {
				f.Report(document.CodeFieldType, v.At, "min", "min must be a number, not %v", v.Kind)
			}
			c.Min = v.Text
		}
	default:
		c.Data = document.Raw(f.Get("data"))
	}
}
