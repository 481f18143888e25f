package tipstaff

import (
	"context"
	"encoding/json"
)

// Skills looks after the skills of a workspace. It needs no store.
//
// A URI that is malformed or not pinned, or names a skill that is not there in
// that version, is invalid_argument; files that are at fault are invalid_program
// with every problem.
type Skills interface {
	// List is every skill folder, by name: also those that are not valid.
	List(context.Context) ([]SkillInfo, error)
	// Show is one skill with its prose, by its URI.
	Show(ctx context.Context, uri string) (SkillInfo, error)
	// Check reads the skill in a folder, or all skills of one, with their plans,
	// and says everything that is wrong. "" is the workspace's folder. The list is
	// of those that are valid, also beside an error.
	Check(ctx context.Context, dir string) ([]SkillInfo, error)
}

// SkillInfo is a skill, or a folder that should be one: then it has problems and
// nothing else.
type SkillInfo struct {
	Dir          string             `json:"dir"`
	URI          string             `json:"uri,omitempty"`
	Digest       string             `json:"digest,omitempty"`
	Description  string             `json:"description,omitempty"`
	Verbs        []string           `json:"verbs,omitempty"`
	Inputs       []SkillField       `json:"inputs,omitempty"`
	Outputs      []SkillField       `json:"outputs,omitempty"`
	Tools        []string           `json:"tools,omitempty"`
	SubSkills    []string           `json:"sub_skills,omitempty"`
	FailureModes []SkillFailureMode `json:"failure_modes,omitempty"`
	Plan         string             `json:"plan,omitempty"`  // digest of its plan.yaml; "": a model drafts its plans
	Prose        string             `json:"prose,omitempty"` // of Show alone
	Problems     []Problem          `json:"problems,omitempty"`
	Warnings     []Problem          `json:"warnings,omitempty"`  // what is not as the convention wants it, and does no harm
	Published    bool               `json:"published,omitempty"` // it has no skill.yaml, and so no tools
}

// SkillField is an input that a skill or a plan takes, or an output that a skill promises.
type SkillField struct {
	Name     string          `json:"name"`
	Required bool            `json:"required"`
	Schema   json.RawMessage `json:"schema"`
}

// SkillFailureMode is what a skill wants done about failures of one kind.
type SkillFailureMode struct {
	Reason string `json:"reason"`
	Action string `json:"action"` // fail, retry, gate
	Note   string `json:"note,omitempty"`
}
