package skill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Skill is one skill as its files say. It is not changed after it was read and
// may be shared.
type Skill struct {
	ID           string        `doc:"id,required"`
	Version      string        `doc:"version,required"`
	Description  string        // one line for lists, from the front matter
	Verbs        []string      // what it is for; never empty
	Inputs       []Field       // by name; nil: it does not say
	Outputs      []Field       // that its plans must have
	Tools        []string      // URIs of the only tools its plans may call; empty: none
	SubSkills    []string      // URIs of the only skills its plans may dispatch; empty: none
	FailureModes []FailureMode `doc:"failure_modes"`
	Prose        string        // for the model: SKILL.md without its front matter
	Plan         []byte        // plan.yaml as it stands there; nil: the skill has none
	Published    bool          // there is no skill.yaml: it may use nothing
	Warnings     []tipstaff.Problem

	manifest json.RawMessage   // skill.yaml in RFC 8785 form
	document []byte            // SKILL.md
	files    map[string]string // digests of all others, by path; nil: there are none, or they were not looked at
}

// Field is an input that the skill takes, or an output that it promises.
type Field = document.Parameter

// Action is what becomes of a node that failed.
type Action string

const (
	Fail  Action = "fail"  // it fails
	Retry Action = "retry" // it is tried once more, if that can do no harm
	Gate  Action = "gate"  // a person is asked: retry or fail
)

// FailureMode is what the skill wants done when a node fails for a reason and
// says nothing about failing itself.
type FailureMode struct {
	Reason string `doc:"reason,required"`
	Action Action `doc:"action,required"`
	Note   string `doc:"note"` // for whoever is asked
}

// Mode is the failure mode for a reason; false: the skill has none, and the node
// fails.
func (s *Skill) Mode(reason string) (FailureMode, bool) {
	i := slices.IndexFunc(s.FailureModes, func(m FailureMode) bool { return m.Reason == reason })
	if i < 0 {
		return FailureMode{}, false
	}
	return s.FailureModes[i], true
}

// URI is the pinned name of the skill.
func (s *Skill) URI() tipstaff.SkillURI { return tipstaff.SkillURI{ID: s.ID, Version: s.Version} }

// Digest names what the files say: sha256:<hex> of Identity.
func (s *Skill) Digest() string { return flow.Digest(s.Identity()) }

// Identity is what Digest is of, in RFC 8785 form: {manifest, prose_sha256}, and
// plan_sha256 too where there is a plan, and files where there are others. All but the
// first are digests of the bytes of SKILL.md, of plan.yaml, and of each file by its path.
// Skills that were frozen before there were files have none, whatever lay beside them.
func (s *Skill) Identity() []byte {
	parts := map[string]any{"manifest": s.manifest, "prose_sha256": flow.Digest(s.document)}
	if s.Plan != nil {
		parts["plan_sha256"] = flow.Digest(s.Plan)
	}
	if s.files != nil {
		parts["files"] = s.files
	}
	return canonical(parts)
}

func canonical(parts map[string]any) []byte {
	form, err := canon.Form(flow.JSON(parts))
	if err != nil {
		panic(fmt.Sprintf("skill: a skill that was read has no canonical form: %v", err))
	}
	return form
}

// Freeze is the whole skill as one document in RFC 8785 form: its manifest, and
// the text of SKILL.md and of plan.yaml, and the digests of the other files. Thaw reads it
// back.
func (s *Skill) Freeze() []byte {
	parts := map[string]any{"manifest": s.manifest, "prose": string(s.document)}
	if s.Plan != nil {
		parts["plan"] = string(s.Plan)
	}
	if s.files != nil {
		parts["files"] = s.files
	}
	if s.Published {
		parts["published"] = true
	}
	return canonical(parts)
}

// Thaw reads what Freeze wrote, and nothing else: bytes in another form, or of a
// skill that would not pass Load, are an error. Schemas were checked when it was frozen.
func Thaw(frozen []byte) (*Skill, error) {
	var f struct {
		Manifest  json.RawMessage   `json:"manifest"`
		Prose     *string           `json:"prose"`
		Plan      *string           `json:"plan"`
		Files     map[string]string `json:"files"`
		Published bool              `json:"published"`
	}
	if err := document.UnmarshalStrict(frozen, &f); err != nil {
		return nil, fmt.Errorf("the frozen skill cannot be read: %w", err)
	}
	if f.Manifest == nil || f.Prose == nil {
		return nil, errors.New("the frozen skill has no manifest or no prose")
	}
	s := &Skill{files: f.Files, Published: f.Published}
	ps := &document.Problems{}
	manifest, p := document.Read(f.Manifest, len(f.Manifest))
	if p != nil {
		return nil, fmt.Errorf("the manifest of the frozen skill cannot be read: %s", p.Message)
	}
	s.decode(ps, manifest)
	s.readDocument(ps, &document.Problems{}, []byte(*f.Prose))
	if f.Plan != nil {
		s.Plan = []byte(*f.Plan)
	}
	if len(*ps) > 0 {
		return nil, fmt.Errorf("the frozen skill is not valid: %s", (*ps)[0].Message)
	}
	if !bytes.Equal(s.Freeze(), frozen) {
		return nil, errors.New("the frozen skill is not in its canonical form")
	}
	return s, nil
}
