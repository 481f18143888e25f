package skill

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

// maxYAML are the bytes of skill.yaml, and of front matter.
const maxYAML = 32 << 10

// parseManifest reads skill.yaml, of the folder of that name, into s.
func (s *Skill) parseManifest(ps *document.Problems, src []byte, folder string) {
	v := readObject(ps, src)
	if v == nil {
		return
	}
	s.decode(ps, v)
	s.checkSchemas(ps, v)
	if tipstaff.IsSkillID(s.ID) && s.ID != folder {
		ps.Add(codeMismatch, v.Get("id").At, "id", "id is %s, but the folder is named %s", tipstaff.Quote(s.ID, 120), tipstaff.Quote(folder, 120))
	}
}

// decode reads the manifest's fields and keeps the whole of it: the digest is of
// the document as it was given.
func (s *Skill) decode(ps *document.Problems, v *document.Value) {
	f := document.FieldsOf(ps, v, "")
	f.Dotted = true
	f.Decode(s)
	f.End()
	s.manifest = document.Raw(f.Value) // its numbers are safe and its names stand once
}

// CheckDocument reads what a tag cannot say.
func (s *Skill) CheckDocument(fields *document.Fields) {
	f := manifestReader{fields}
	if v := f.Get("id"); v != nil && v.Kind == document.Text && !tipstaff.IsSkillID(v.Text) {
		f.Report(document.CodeFieldInvalid, v.At, "id", "%s cannot be the id of a skill; %s", tipstaff.Quote(v.Text, 120), tipstaff.SkillIDRule)
	}
	if v := f.Get("version"); v != nil && v.Kind == document.Text && !tipstaff.IsVersion(v.Text) {
		f.Report(document.CodeFieldInvalid, v.At, "version", "%s is not a full version like 1.2.3", tipstaff.Quote(v.Text, 120))
	}
	s.Verbs = f.verbs()
	s.Inputs = f.described("inputs")
	s.Outputs = f.described("outputs")
	s.Tools = f.uris("tools", "mcp://server/tool@1.2.3", func(uri string) string {
		_, err := tipstaff.ParseToolURI(uri)
		return uriCode(err, codeUnpinnedTool)
	})
	s.SubSkills = f.uris("sub_skills", "skill://name@1.2.3", func(uri string) string {
		_, err := tipstaff.ParseSkillURI(uri)
		return uriCode(err, codeUnpinnedSkill)
	})
	for i, m := range s.FailureModes {
		if m.Reason != "" && slices.ContainsFunc(s.FailureModes[:i], func(known FailureMode) bool { return known.Reason == m.Reason }) {
			item := f.Value.Find("failure_modes", strconv.Itoa(i))
			f.Report(document.CodeFieldInvalid, item.At, "failure_modes["+strconv.Itoa(i)+"]", "there is a failure mode for %s already", m.Reason)
		}
	}
}

// manifestReader reads the fields of a manifest.
type manifestReader struct{ *document.Fields }

func (f manifestReader) verbs() []string {
	v := f.Required("verbs", document.List)
	if v == nil {
		return nil
	}
	if len(v.Items) == 0 {
		f.Problems.Add(document.CodeFieldInvalid, v.At, "verbs", "a skill is for one verb at least: %s or x:<name>", strings.Join(document.Verbs, ", "))
	}
	return f.words(v, "verbs", func(word string) string {
		if slices.Contains(document.Verbs, word) || document.IsExtension(word) {
			return ""
		}
		return document.CodeFieldInvalid
	}, "one of "+strings.Join(document.Verbs, ", ")+" or x:<name>")
}

// uris is a list of pinned URIs, or the word none. What is not said is never
// taken for "anything": the field must be there.
func (f manifestReader) uris(name, form string, check func(string) string) []string {
	v := f.Get(name)
	switch {
	case v == nil:
		f.Problems.Add(document.CodeFieldMissing, f.Value.At, name, "%s is missing; a skill that needs none says %s: none", name, name)
	case v.Kind == document.Text && v.Text == "none":
	case v.Kind != document.List:
		f.Problems.Add(document.CodeFieldType, v.At, name, "%s must be a list of URIs, or none", name)
	default:
		return f.words(v, name, check, "a URI like "+form)
	}
	return []string{}
}

// uriCode is the code of what is wrong with a URI; "" is nothing.
func uriCode(err error, unpinned string) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, tipstaff.ErrUnpinned):
		return unpinned
	}
	return codeInvalidURI
}

// words reads a list of texts, each once. check gives the code of a bad one.
func (f manifestReader) words(v *document.Value, path string, check func(string) string, form string) []string {
	words := []string{}
	for i, item := range v.Items {
		where := path + "[" + strconv.Itoa(i) + "]"
		switch {
		case item.Kind != document.Text:
			f.Problems.Add(document.CodeFieldType, item.At, where, "%s must be text, not %v", where, item.Kind)
		case slices.Contains(words, item.Text):
			f.Problems.Add(document.CodeFieldInvalid, item.At, where, "%s stands twice", tipstaff.Quote(item.Text, 120))
		default:
			switch code := check(item.Text); code {
			case "":
			case codeUnpinnedTool, codeUnpinnedSkill:
				f.Problems.Add(code, item.At, where, "%s is not pinned; write %s", tipstaff.Quote(item.Text, 120), form)
			default:
				f.Problems.Add(code, item.At, where, "%s is not %s", tipstaff.Quote(item.Text, 120), form)
			}
			words = append(words, item.Text)
		}
	}
	return words
}

// described reads inputs or outputs, sorted by name.
func (f manifestReader) described(name string) []Field {
	found := f.Parameters(name, func(m document.Member) bool {
		bad := !document.IsName(m.Key)
		if bad {
			f.Problems.Add(document.CodeFieldInvalid, m.At, name, "%s cannot be a name: 1 to 64 of A-Z, a-z, 0-9, _ and -", tipstaff.Quote(m.Key, 120))
		}
		return bad
	})
	slices.SortFunc(found, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// checkSchemas is for skills that are loaded: one that was frozen may have been under
// earlier rules, and nothing is validated by its schemas.
func (s *Skill) checkSchemas(ps *document.Problems, v *document.Value) {
	for name, fields := range map[string][]Field{"inputs": s.Inputs, "outputs": s.Outputs} {
		for _, p := range fields {
			if _, err := document.CompileSchema(p.Schema); err != nil {
				path := name + "." + p.Name
				ps.Add(codeSchemaInvalid, v.Find(name, p.Name).At, path, "%s is not described by a JSON Schema: %v", path, err)
			}
		}
	}
}

// Reasons that a skill can say something about. The first are those that trying
// again may mend; of the last a run fails whatever a skill would like, because
// somebody or something has forbidden to go on, or there is no node to go on
// with.
var (
	passing = []string{"timeout", "tool_unavailable", "tool_error", "output_invalid"}
	lasting = []string{"step_error", "subagent_failed", "factual_error", "wrong_assumption", "internal"}
	final   = []string{"policy_denied", "gate_denied", "bound_exceeded", "deadline_exceeded", "in_doubt",
		"plan_invalid", "ambiguous_after_clarify", "blocked_by_constraint"}
)

// CheckDocument finds reasons and actions that there are not, and that do not go
// together.
func (m *FailureMode) CheckDocument(f *document.Fields) {
	reason, action := f.Get("reason"), f.Get("action")
	known := slices.Contains(slices.Concat(passing, lasting, final), m.Reason) || document.IsExtension(m.Reason)
	switch {
	case reason == nil || action == nil || reason.Kind != document.Text || action.Kind != document.Text:
	case !known:
		f.Problems.Add(document.CodeFieldInvalid, reason.At, f.Path, "%s is not a reason to fail; it is one of %s, or x:<name>",
			tipstaff.Quote(m.Reason, 120), strings.Join(slices.Concat(passing, lasting, final), ", "))
	case m.Action == Fail:
	case m.Action != Retry && m.Action != Gate:
		f.Problems.Add(document.CodeFieldInvalid, action.At, f.Path, "%s is not an action; it is fail, retry or gate", tipstaff.Quote(string(m.Action), 120))
	case slices.Contains(final, m.Reason):
		f.Problems.Add(document.CodeFieldInvalid, action.At, f.Path, "%s always fails; its action can only be fail", m.Reason)
	case m.Action == Retry && !slices.Contains(passing, m.Reason):
		f.Problems.Add(document.CodeFieldInvalid, action.At, f.Path, "%s is not mended by trying again; retry is for %s", m.Reason, strings.Join(passing, ", "))
	}
}

// Codes of what can be wrong with the files of a skill, beside those of every
// document.
const (
	codeFileMissing   = "file_missing"
	codeFile          = "file_unreadable" // a folder, a device, or a link that leads out
	codeFrontMatter   = "front_matter"    // SKILL.md does not begin with any, or it never ends
	codeSchemaInvalid = "schema_invalid"
	codeInvalidURI    = "invalid_uri"
	codeUnpinnedTool  = "unpinned_tool"
	codeUnpinnedSkill = "unpinned_skill"
	codeMismatch      = "skill_mismatch" // id or version is not that of folder or URI
	codeNotGranted    = "tools_not_granted"
)
