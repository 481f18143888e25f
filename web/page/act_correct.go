package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// foreseen is what an action would do.
type foreseen struct {
	Title   string
	Subject []subjectRow
	Digest  string // of what was looked at: what is done must be that
}

// programFile is what the text of a program is called where a command reads it from a file.
const programFile = "program.yaml"

// correctAction hands a revised plan to a run, and has it go on.
var correctAction = action{
	Name: "correct", Title: "Correct", Button: "Correct the run",
	says: saying("The run goes on with a revised plan: what both have in common is carried over and not done again, and what changes the terms must be confirmed first."),
	is:   func(run tipstaff.Run) bool { return run.Program.Kind == "plan" && !run.State.Terminal() },
	fields: func(v *view, run tipstaff.Run, in url.Values) ([]field, error) {
		if in.Get("program") == "" {
			text, err := v.programText(run)
			if err != nil {
				return nil, err
			}
			in.Set("program", text)
		}
		return []field{{Name: "program", Label: "Revised plan", Kind: "program", Hint: "YAML or JSON"}, {Name: "reason", Label: "Reason", Kind: "line", Hint: "why, for the record: it is needed"}}, nil
	},
	command: func(run tipstaff.Run, in url.Values) []string {
		reason := in.Get("reason")
		if reason == "" {
			reason = "TEXT"
		}
		return []string{"resume", run.ID.String(), "--with", programFile, "--reason", reason}
	},
	shown: func(v *view, run tipstaff.Run, in url.Values) (*foreseen, error) {
		if strings.TrimSpace(in.Get("reason")) == "" {
			return nil, wrongField("reason", "a correction needs a reason")
		}
		got, err := v.s.control.Runs.Validate(v.ctx(), tipstaff.ValidateRequest{Correct: &tipstaff.CorrectRequest{Run: run.ID, Program: []byte(in.Get("program")), Name: programFile, Reason: in.Get("reason")}})
		if err != nil {
			return nil, err
		}
		c := got.Corrected
		seen := &foreseen{Title: "This is not material: it takes effect at once, as revision", Digest: programDigest(in)}
		if c.Material {
			seen.Title = "This is material: somebody must confirm it before it takes effect, as revision"
		}
		seen.Title += " " + thousands(c.Revision) + "."
		if len(c.Changes) == 0 {
			seen.Title += " No step is another."
		}
		subject, err := json.Marshal(map[string]any{"changes": c.Changes, "reasons": c.Reasons, "program_digest": c.Program.Digest})
		seen.Subject = subjectRows(tipstaff.WholeSubject(tipstaff.Gate{Kind: tipstaff.Confirmation, Subject: subject}).Lines)
		return seen, err
	},
	do: func(v *view, run tipstaff.Run, in url.Values) (tipstaff.ID, error) {
		if in.Get("seen") != programDigest(in) {
			return run.ID, errStale
		}
		program, err := json.Marshal(in.Get("program"))
		if err != nil {
			return run.ID, err
		}
		_, err = v.s.control.Continue(v.ctx(), tipstaff.Continuation{Run: run.ID, Correction: &tipstaff.Correction{Program: program, Reason: in.Get("reason")}})
		return run.ID, err
	},
}

// programDigest is that of the text of a program in a form.
func programDigest(in url.Values) string {
	sum := sha256.Sum256([]byte(in.Get("program")))
	return hex.EncodeToString(sum[:])
}

// programText is the program of a run, to be read and changed by people.
func (v *view) programText(run tipstaff.Run) (string, error) {
	raw, err := v.s.control.Runs.Artifact(v.ctx(), run.ID, run.Program.Digest)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	if json.Indent(&text, raw, "", "  ") != nil {
		return string(raw), nil
	}
	return text.String(), nil
}
