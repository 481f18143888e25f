package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Check parses a document and validates it: everything that is wrong with it,
// in the order in which it stands there. The document is nil if any is.
func Check(name string, src []byte, r Resolver) (*Document, []tipstaff.Problem) {
	d, problems := Parse(name, src)
	if d == nil {
		return nil, problems
	}
	if problems = d.Validate(r); len(problems) > 0 {
		return nil, problems
	}
	return d, nil
}

// Parse reads a document from YAML 1.2 or JSON. name is that of the file, for
// messages. The problems are those of text and shape; a document whose text
// could be read is returned beside them, so that [Document.Validate] can say
// what else is wrong. nil problems do not make it valid.
func Parse(name string, src []byte) (*Document, []tipstaff.Problem) { return parse(name, src, false) }

func parse(name string, src []byte, frozen bool) (*Document, []tipstaff.Problem) {
	v, p := document.Read(src, maxSize(src))
	if p != nil {
		return nil, document.Problems{*p}.Public(name)
	}
	d := &Document{file: name, frozen: frozen}
	ps := document.Problems{}
	document.CheckNumbers(v, &ps)
	if len(ps) == 0 {
		d.canonical = document.Raw(v)
	}
	d.decode(v, &ps)
	d.problems = ps
	return d, ps.Public(name)
}

// Load reads a document back from its canonical bytes, which were validated
// when they were frozen.
func Load(canonical []byte) (*Document, error) {
	d, problems := parse("program", canonical, true)
	if len(problems) > 0 {
		return nil, &tipstaff.Error{Code: tipstaff.InvalidProgram, Message: "the stored program cannot be read", Problems: problems}
	}
	if string(d.canonical) != string(canonical) {
		return nil, errors.New("plan: the stored program is not in its canonical form")
	}
	return d, nil
}

// Canonical is the document as it was given, in RFC 8785 form. nil if a number
// in it has no such form.
func (d *Document) Canonical() []byte { return d.canonical }

// Digest names the program: sha256:<hex> of Canonical.
func (d *Document) Digest() string { return flow.Digest(d.canonical) }

func (d *Document) decode(v *document.Value, ps *document.Problems) {
	f := document.FieldsOf(ps, v, "")
	d.written, d.Version = f.Value, 1
	d.Tools = readTools(f)
	k := f.Get("kind")
	switch {
	case k == nil:
		ps.Add(document.CodeKindUnknown, f.Value.At, "", "the document does not say what it is; a plan begins with kind: plan")
	case k.Kind == document.Text && k.Text == KindTurn:
		d.decodeTurn(f)
		return
	case k.Kind == document.Text && k.Text != KindPlan: // what else is wrong with it nobody can tell
		ps.Add(document.CodeKindUnknown, k.At, "", "%q is not a kind of document that can be run: there are plan, pipeline and turn%s", document.Brief(k.Text),
			tipstaff.Suggest(k.Text, []string{KindPlan, "pipeline", KindTurn}))
		d.Root = emptyRoot()
		return
	}
	f.Decode(d)
	d.Inputs = f.Parameters("inputs", func(m document.Member) bool {
		bad := !document.IsName(m.Key) || m.Key == inputFollowup
		if bad {
			ps.Add(codeIDGrammar, m.At, "inputs", "%q cannot name an input: 1 to 64 of A-Z, a-z, 0-9, _ and -, and not followup", document.Brief(m.Key))
		}
		return bad
	})
	f.Need("root")
	if root := f.Get("root"); root != nil {
		d.Root = (&nodeReader{Fields: f}).node(root, rootPath, 1)
		d.Root.place("", 0)
	} else {
		d.Root = emptyRoot()
	}
	document.CheckFiles(f, d.Files.Mode, d.Deliver)
	if v := f.Get("workspace"); v != nil && !(d.frozen && v.Text == document.FilesNone) { // as it was called when these could say only that
		ps.Add(document.CodeFieldUnknown, d.place("workspace"), "workspace", "where a program works is said by files")
	}
	f.End()
}

func emptyRoot() *Node {
	return &Node{Kind: Sequential, Path: rootPath, segment: rootPath, written: &document.Value{Kind: document.Object}}
}

// readTools is an allow-list: a list of URIs, or the word none. nil: absent, which
// is another thing than empty.
func readTools(f *document.Fields) *[]string {
	v := f.Get("tools")
	if v == nil {
		return nil
	}
	list := []string{}
	switch {
	case v.Kind == document.Text && v.Text == "none":
	case v.Kind == document.Text:
		f.Report(document.CodeFieldInvalid, v.At, "tools", "tools is %q; it must be a list of tool URIs, or none", document.Brief(v.Text))
	default:
		list = f.Texts("tools")
	}
	return &list
}

// Bounds are the limits that a document sets, in the units of the ledger:
// cost_usd in 10⁻⁹ USD, wall_time in milliseconds. A name that is absent is not
// limited by the document.
type Bounds flow.Use

// boundNames in the order of reports.
var boundNames = []string{
	tipstaff.BoundIterations, tipstaff.BoundModelCalls, tipstaff.BoundToolCalls,
	tipstaff.BoundAgentHops, tipstaff.BoundTokens, tipstaff.BoundCostUSD, tipstaff.BoundWallTime,
}

// maxCount is the largest whole number that every JSON reader agrees on.
const maxCount = 1<<53 - 1

// ReadDocument reads those that are given.
func (b *Bounds) ReadDocument(f *document.Fields, name string, _ *document.Value) {
	f.Object(name, func(f *document.Fields) {
		*b = Bounds{}
		for _, bound := range boundNames {
			if amount, ok := readBound(f, bound); ok {
				(*b)[bound] = amount
			}
		}
	})
}

var decimalGrammar = regexp.MustCompile(`^(0|[1-9][0-9]{0,17})(\.[0-9]{1,9})?$`)

// readBound is one limit; ok is false where there is none, or none that can be read.
// Amounts of USD are strings: a number would already have been rounded by whoever read
// it.
func readBound(f *document.Fields, name string) (amount int64, ok bool) {
	v := f.Get(name)
	switch {
	case v == nil:
		return 0, false
	case name == tipstaff.BoundWallTime:
		d := f.Duration(name)
		return d.Milliseconds(), d > 0
	case name != tipstaff.BoundCostUSD:
		const absent = -1
		n := f.Integer(name, absent, 0, maxCount)
		return n, n != absent
	}
	usd, err := tipstaff.ParseUSD(v.Text)
	switch {
	case v.Kind != document.Text:
		f.Report(document.CodeFieldType, v.At, name, `%s is %v; an amount is a string, like "0.50"`, name, v.Kind)
	case !decimalGrammar.MatchString(v.Text):
		f.Report(document.CodeFieldInvalid, v.At, name, `%s is %q; an amount has at most nine decimals, like "0.50"`, name, document.Brief(v.Text))
	case err != nil || usd == math.MaxInt64: // which is how the ledger says that there is no limit
		f.Report(document.CodeRange, v.At, name, "%s is %s; that is more than can be counted", name, document.Brief(v.Text))
	default:
		return int64(usd), true
	}
	return 0, false
}

// Limits are the bounds of the document in ledger units. nil: it has none.
func (d *Document) Limits() flow.Use { return flow.Use(d.Bounds) }

// Kinds of documents.
const (
	KindPlan = "plan"
	KindTurn = "turn"
)

// turnPath is the path of the one step of a turn.
const turnPath = "turn"

// MaxMessage is how long the message of a turn may be, in bytes.
const MaxMessage = 1 << 20

// maxTurnSize leaves room for a message every character of which is escaped.
const maxTurnSize = 6*MaxMessage + 64<<10

// Turn is what a turn has beside a plan: one step, in which an agent answers a
// message in a session. It is walked like any other plan.
type Turn struct {
	Session  string `doc:"session"` // "": a new one
	Head     string `doc:"head"`    // digest of the conversation so far; "": there is none yet
	Message  string `doc:"message,required"`
	Model    string `doc:"model"`                    // a name of the manifest, instead of the agent's own; "": that
	MaxSteps int    `doc:"max_steps,min=1,max=1000"` // 0: the agent's own
}

// IsTurn tells the source of a turn from that of a plan.
func IsTurn(src []byte) bool {
	v, fault := document.Read(src, maxTurnSize)
	if fault != nil || v.Kind != document.Object {
		return false
	}
	kind := v.Get("kind")
	return kind != nil && kind.Kind == document.Text && kind.Text == KindTurn
}

// maxSize is how large a document may be: only a turn carries what somebody has
// said or piped in.
func maxSize(src []byte) int {
	if turnForm.Match(src[:min(len(src), 4<<10)]) || bytes.Contains(src[max(0, len(src)-4<<10):], []byte(`"kind":"turn"`)) {
		return maxTurnSize
	}
	return MaxSize
}

var turnForm = regexp.MustCompile(`(?m)^\s*\{?\s*"?kind"?\s*:\s*"?turn\b|"kind":\s*"turn"`)

func (d *Document) decodeTurn(f *document.Fields) {
	var t struct {
		Turn
		Kind    string `doc:"kind"`
		Version int    `doc:"version,min=1,max=1"`
		Agent   string `doc:"agent"`
		Bounds  Bounds `doc:"bounds"`
	}
	f.Decode(&t)
	d.Kind, d.Turn, d.Bounds = KindTurn, &t.Turn, t.Bounds
	if v := f.Value.Get("message"); v != nil && v.Kind == document.Text && (t.Message == "" || len(t.Message) > MaxMessage) {
		f.Report(document.CodeRange, v.At, "", "message has %d bytes; it must have 1 to %d", len(t.Message), MaxMessage)
	}
	written := &document.Value{Kind: document.Object, At: f.Value.At, Members: []document.Member{
		{Key: "id", Value: &document.Value{Kind: document.Text, Text: turnPath, At: f.Value.At}}}}
	d.Root = &Node{ID: turnPath, Kind: Step, Agent: cmp.Or(t.Agent, DefaultAgent), Path: turnPath, segment: turnPath, written: written}
	if m := f.Value.Member("agent"); m != nil {
		written.Members = append(written.Members, document.Member{Key: "agent", Value: &document.Value{Kind: document.Text, Text: d.Root.Agent, At: m.At}})
	}
	f.End()
}

// Codes of what can be wrong with the values of a caller.
const (
	CodeInputMissing = "input_missing"
	codeInputUnknown = "input_unknown"
	codeInputInvalid = "input_invalid"
)

func (v *validator) inputs() {
	for _, in := range v.d.Inputs {
		path := "inputs." + in.Name
		schema, err := document.CompileSchema(in.Schema)
		if err != nil {
			v.add(codeSchemaInvalid, in.At, path, "the input %s is described by no JSON Schema: %v", in.Name, err)
			continue
		}
		if in.Default == nil {
			continue
		}
		if err := document.Conforms(schema, in.Default); err != nil {
			v.add(codeSchemaInvalid, in.At, path, "the default of %s does not fit its own schema: %v", in.Name, err)
		}
	}
}

// CheckInputs checks the values that a caller gives: each against its schema,
// none unknown, none that is required missing. It returns all inputs as one
// object in RFC 8785 form, defaults filled in.
func (d *Document) CheckInputs(given map[string]json.RawMessage) (json.RawMessage, []tipstaff.Problem) {
	var ps document.Problems
	all := map[string]json.RawMessage{}
	for _, in := range d.Inputs {
		raw, ok := given[in.Name]
		switch {
		case ok:
			if code, err := checkInput(in, raw); err != nil {
				ps.Add(code, document.Position{}, "inputs."+in.Name, "%v", err)
				continue
			}
			all[in.Name] = raw
		case in.Default != nil:
			all[in.Name] = in.Default
		case in.Required:
			ps.Add(CodeInputMissing, document.Position{}, "inputs."+in.Name, "the plan needs the input %s", in.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.ContainsFunc(d.Inputs, func(in document.Parameter) bool { return in.Name == name }) {
			continue
		}
		ps.Add(codeInputUnknown, document.Position{}, "inputs."+document.Brief(name), "the plan has no input %q", document.Brief(name))
	}
	if len(ps) > 0 {
		return nil, ps.Public("")
	}
	joined, err := json.Marshal(all)
	if err == nil {
		joined, err = document.Canonical(joined)
	}
	if err != nil {
		ps.Add(codeInputInvalid, document.Position{}, "inputs", "%v", err)
		return nil, ps.Public("")
	}
	return joined, nil
}

// checkInput is why a value cannot be this input, and the code of that.
func checkInput(in document.Parameter, raw json.RawMessage) (code string, err error) {
	if !json.Valid(raw) {
		return codeInputInvalid, fmt.Errorf("%s is not JSON", in.Name)
	}
	if _, err := document.Canonical(raw); errors.Is(err, document.ErrUnsafe) {
		return document.CodeNumberUnsafe, fmt.Errorf("%s: %w; write it as a string", in.Name, err)
	} else if err != nil {
		return codeInputInvalid, fmt.Errorf("%s: %w", in.Name, err)
	}
	schema, err := document.CompileSchema(in.Schema)
	if err != nil {
		return codeSchemaInvalid, err
	}
	if err := document.Conforms(schema, raw); err != nil {
		return codeInputInvalid, fmt.Errorf("%s does not fit its schema: %w", in.Name, err)
	}
	return "", nil
}
