package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// What every run is about: a wish that needs a question answered first, the skill that it
// is done with, the plan, and two corrections of it. A model that is not scripted is told
// by the skill what to answer: the harness is about the product, not about the model.

type object = map[string]any

const (
	wish     = "Announce the release."
	question = "audience"
	answer   = "cartographers" // stands nowhere else, so that it can be told from what the model is told anyhow
	title    = "Spring release"
	verb     = "deliver"

	skillURI = "skill://announce@1.0.0"
	gateNode = "ok"
)

// The six calls of the plan, with the tools that they are of.
const (
	filesList   = "mcp://files/list@" + filesVersion
	filesRead   = "mcp://files/read@" + filesVersion
	filesWrite  = "mcp://files/write@" + filesVersion
	notesFind   = "mcp://notes/find@" + notesVersion
	notesPost   = "mcp://notes/post@" + notesVersion
	builtinHTTP = "mcp://builtin/http_get@" + builtinVersion
)

var (
	tools = []string{filesList, filesRead, filesWrite, notesFind, notesPost, builtinHTTP}
	// done are the leaves before the gate: what a correction carries over.
	done    = []string{"list", "read", "find", "fetch", "sum", "post"}
	objects = []any{object{"name": "release", "value": title}}
	// seeds are remembered before the run, each with its importance.
	seeds = []int{2, 5, 9}
)

// replies is what a model says, in this order.
type replies struct{ Questions, Plan, Step string }

// script is what the model is to say.
func script(address string) replies {
	call := func(id, tool string, args object) object {
		return object{"id": id, "kind": "tool_call", "tool": tool, "args": args}
	}
	plan := object{
		"kind": "plan", "version": 1, "skill": skillURI, "tools": tools,
		"intent": object{"verb": verb, "objects": objects, "success_criteria": []any{object{"type": "delivered", "artifact": "announcement.txt"}}},
		"bounds": object{"tool_calls": 20},
		"root": object{"kind": "sequential", "children": []any{
			call("list", filesList, object{}),
			object{"kind": "parallel", "children": []any{
				call("read", filesRead, object{"name": "changes.txt"}),
				call("find", notesFind, object{"text": "release"}),
			}},
			call("fetch", builtinHTTP, object{"url": "http://" + address + "/version"}),
			object{"id": "sum", "kind": "step", "prompt": `Answer with exactly this JSON: {"title":"` + title + `"}`, "inputs": object{"changes": "${read.output.text}"},
				"output_schema": object{"type": "object", "properties": object{"title": object{"type": "string"}}, "required": []string{"title"}}},
			call("post", notesPost, object{"text": "A release is coming."}),
			object{"id": gateNode, "kind": "gate", "question": "Publish it?", "show": object{"title": "${sum.output.title}"}},
			call("write", filesWrite, object{"name": "announcement.txt", "text": "${sum.output.title}"}),
		}},
		"outputs": object{"title": "${sum.output.title}", "file": "${write.output.name}"},
	}
	asks := object{"questions": []any{object{"id": question, "prompt": "Who will read it?", "type": "text", "options": []any{}, "required": true}}}
	return replies{Questions: text(asks), Plan: text(plan), Step: text(object{"title": title})}
}

// outputs are what a run of the plan must end with.
func (r replies) outputs() object {
	var step struct{ Title any }
	_ = json.Unmarshal([]byte(r.Step), &step) // what is no JSON has no title, and no run ends with it
	return object{"title": step.Title, "file": "announcement.txt"}
}

// to answers a request as the script does: a request to draft is told by the wish, and
// the answer to the question must be in it before there is a plan.
func (r replies) to(request string) string {
	switch {
	case !strings.Contains(request, wish):
		return r.Step
	case strings.Contains(request, answer):
		return r.Plan
	}
	return r.Questions
}

// scripted is the same as a script of the scripted provider.
func (r replies) scripted() []byte {
	return []byte(text(object{"version": 1, "answers": []any{
		object{"when": object{"purpose": "draft", "user": answer}, "text": r.Plan},
		object{"when": object{"purpose": "draft"}, "text": r.Questions},
		object{"when": object{}, "text": r.Step},
	}}))
}

// gentle is a correction that changes nothing that was agreed on: the file is read again
// after it was written.
func gentle(plan object) {
	root := plan["root"].(object) // a drafted plan has been checked: there is a root, and an intent
	children, _ := root["children"].([]any)
	root["children"] = append(children, object{"id": "check", "kind": "tool_call", "tool": filesRead, "args": object{"name": "announcement.txt"}})
}

// harsh is a correction that is material by two rules.
func harsh(plan object) {
	plan["bounds"] = object{"tool_calls": 40}
	intent := plan["intent"].(object)
	criteria, _ := intent["success_criteria"].([]any)
	intent["success_criteria"] = append(criteria, object{"type": "signed_off"})
}

// materialRules are those that harsh meets, in the order of the rules.
var materialRules = []string{"budget_delta", "success_criteria_changed"}

// folders of one run.
type folders struct{ workspace, files, export, flipped string }

// lay writes a workspace: manifest, skill, script, and beside it the folder of the server
// files. The skill tells a model what to say; script is what a scripted one says. models
// are those of the manifest, and model is the one that agents use.
func lay(dir string, filesCommand []string, address string, told replies, script []byte, models json.RawMessage, model string) (folders, error) {
	f := folders{filepath.Join(dir, "workspace"), filepath.Join(dir, "files"), filepath.Join(dir, "export"), filepath.Join(dir, "flipped")}
	manifest := text(object{
		"version": 1, "default_skill": skillURI, "allowed_effects": []string{"read", "idempotent", "once"},
		"servers": object{
			"files":   object{"command": slices.Concat(filesCommand, []string{f.files, filepath.Join(dir, "calls")}), "tools": object{"list": object{}, "read": object{}, "write": object{}}},
			"notes":   object{"url": "http://" + address + "/mcp", "tools": object{"find": object{}, "post": object{"effect": "once"}}},
			"builtin": object{"hosts": []string{address}, "tools": object{"http_get": object{}}},
		},
		"models": models, "agents": object{"default": object{"model": model, "tools": "none"}},
	})
	skill := filepath.Join(f.workspace, "skills", "announce")
	all := map[string]string{
		filepath.Join(f.workspace, "tipstaff.yaml"): manifest,
		filepath.Join(f.workspace, "script.json"):   string(script),
		filepath.Join(f.files, "changes.txt"):       "It is faster.",
		filepath.Join(skill, "skill.yaml"): text(object{"id": "announce", "version": "1.0.0", "verbs": []string{verb}, "tools": tools, "sub_skills": "none",
			"outputs": object{"title": object{"type": "string"}, "file": object{"type": "string"}}}),
		filepath.Join(skill, "SKILL.md"): fmt.Sprintf("---\nname: announce\ndescription: Announces a release.\n---\n"+
			"When a plan is to be written, and the user has not said who will read it, answer with exactly this document:\n%s\nWhen the user has, answer with exactly this plan:\n%s\n", told.Questions, told.Plan),
	}
	for name, content := range all {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return f, err
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			return f, err
		}
	}
	return f, nil
}

// text is a value as JSON, with < and > as they are.
func text(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only values of this package are written, and all of them can be
	}
	return strings.TrimSuffix(b.String(), "\n")
}
