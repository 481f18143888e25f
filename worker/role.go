package worker

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// Role is what a worker is told to be. It is data: a prompt, and what it may do unless
// something else is said.
type Role struct {
	Name        string  `json:"name"`
	Description string  `json:"description"`
	Prompt      string  `json:"prompt"` // Markdown; "": the protocol alone
	Posture     Posture `json:"posture"`
}

//go:embed roles/*.md
var roleFiles embed.FS

// roles are the built-in ones, without their prompts.
var roles = []Role{
	{Name: "architect", Description: "writes design documents, no code", Posture: Auto},
	{Name: "decomposer", Description: "splits a feature into independent units of work", Posture: ReadOnly},
	{Name: "implementer", Description: "changes code and its tests", Posture: Auto},
	{Name: "planner", Description: "breaks a goal into tasks", Posture: ReadOnly},
	{Name: "researcher", Description: "answers with sources, marks what it could not verify", Posture: ReadOnly},
	{Name: "reviewer", Description: "judges a change against its task, gives a verdict", Posture: ReadOnly},
}

// Roles are those that come with Tipstaff, by name.
func Roles() []Role {
	all := slices.Clone(roles)
	for i := range all {
		all[i].Prompt = roleFile(all[i].Name)
	}
	return all
}

// BuiltinRole is one of [Roles].
func BuiltinRole(name string) (Role, bool) {
	i := slices.IndexFunc(roles, func(r Role) bool { return r.Name == name })
	if i < 0 {
		return Role{}, false
	}
	r := roles[i]
	r.Prompt = roleFile(name)
	return r, true
}

// Protocol is how every worker reports, asks and hands over.
func Protocol() string { return roleFile("protocol") }

func roleFile(name string) string {
	text, err := roleFiles.ReadFile("roles/" + name + ".md")
	if err != nil {
		panic("worker: " + err.Error()) // it is part of this binary
	}
	return string(text)
}

// Brief is what a worker is asked to do.
type Brief struct {
	Name        string // of the task
	Iteration   int    // from 1
	Skill       string // prose; "": none
	Description string
	Inputs      []tipstaff.TaskInput
	Feedback    string // of the latest review; "": none
}

// Preamble is what a session begins with, whatever the assignment is: the role, the
// protocol, and a line, behind which the assignment follows. A run freezes it.
func Preamble(role Role) string {
	parts := []string{strings.TrimSpace(Protocol()), "---", ""}
	if prompt := strings.TrimSpace(role.Prompt); prompt != "" {
		parts = slices.Insert(parts, 0, prompt)
	}
	return strings.Join(parts, "\n\n")
}

// Text is the assignment in words. It is part of what a replay compares: see brief.go.
func (b Brief) Text() string {
	parts := []string{fmt.Sprintf("# Task: %s\n\nIteration %d.", b.Name, max(1, b.Iteration))}
	section := func(title, text string) {
		if text = strings.TrimSpace(text); text != "" {
			parts = append(parts, "## "+title+"\n\n"+text)
		}
	}
	section("Skill", b.Skill)
	section("Description", b.Description)
	section("Inputs", inputsText(b.Inputs))
	section("Feedback on the previous iteration", b.Feedback)
	return strings.Join(parts, "\n\n") + "\n"
}

// inputsText lists files by name, and then texts as they are.
func inputsText(inputs []tipstaff.TaskInput) string {
	var files, texts []string
	for _, in := range inputs {
		if in.Path != "" {
			files = append(files, "- `"+in.Path+"`")
		} else {
			texts = append(texts, strings.TrimSpace(in.Text))
		}
	}
	if len(files) > 0 {
		texts = slices.Insert(texts, 0, "Read these files first:\n\n"+strings.Join(files, "\n"))
	}
	return strings.Join(texts, "\n\n")
}
