package skill

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
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

	manifest json.RawMessage // skill.yaml in RFC 8785 form
	document []byte          // SKILL.md
}

// Field is an input that the skill takes, or an output that it promises.
type Field struct {
	Name     string
	Required bool
	Default  json.RawMessage // nil: none
	Schema   json.RawMessage // JSON Schema
}

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
func (s *Skill) Digest() string { return digest(s.Identity()) }

// Identity is what Digest is of, in RFC 8785 form: {manifest, prose_sha256}, and
// plan_sha256 too where there is a plan. The last two are digests of the bytes of
// SKILL.md and plan.yaml.
func (s *Skill) Identity() []byte {
	parts := []document.Member{textMember("prose_sha256", digest(s.document))}
	if s.Plan != nil {
		parts = append(parts, textMember("plan_sha256", digest(s.Plan)))
	}
	return s.with(parts)
}

func textMember(key, text string) document.Member {
	return document.Member{Key: key, Value: &document.Value{Kind: document.Text, Text: text}}
}

// with is the canonical JSON of the manifest beside other parts.
func (s *Skill) with(parts []document.Member) []byte {
	manifest, p := document.Read(s.manifest, len(s.manifest))
	if p != nil {
		panic("skill: a manifest that was read cannot be read again: " + p.Message)
	}
	parts = append(parts, document.Member{Key: "manifest", Value: manifest})
	return document.Raw(&document.Value{Kind: document.Object, Members: parts})
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
