package skill

import (
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/document"
)

// These targets read text without a disk under it.

const (
	fuzzManifest = "id: notes\nversion: 1.2.3\nverbs: [build]\ninputs:\n  file: {type: string}\n  depth: {type: integer, default: 2}\n" +
		"outputs: {notes: {type: string, required: false}}\ntools: [mcp://builtin/read_file@1.0.0]\nsub_skills: none\n" +
		"failure_modes:\n  - {reason: tool_error, action: gate, note: Look.}\n"
	fuzzDocument = "---\nname: notes\ndescription: >\n  Writes notes\n  from a file.\nlicense: MIT\n---\n\n# Notes\n"
)

func FuzzManifest(f *testing.F) {
	f.Add(fuzzManifest)
	f.Add("id: notes\nversion: 1.0.0\nverbs: [find]\ntools: none\nsub_skills: []\ninputs: {a: {type: [string, \"null\"], default: 1e3}}")
	f.Add("{id: notes, tools: [[[]]], failure_modes: [{reason: timeout}]}")
	f.Add("? a\n: - - b\n")
	f.Fuzz(func(t *testing.T, src string) { checkFuzzed(t, src, fuzzDocument) })
}

func FuzzFrontMatter(f *testing.F) {
	f.Add(fuzzDocument)
	f.Add("---\nname: notes\n---\n---\ndescription: x\n")
	f.Add("---\r\nname: notes\r\ndescription: |\r\n  x\r\n---\r\nprose")
	f.Add("--- \nname: \"notes\"\ndescription: &a x\n---")
	f.Fuzz(func(t *testing.T, src string) { checkFuzzed(t, fuzzManifest, src) })
}

// checkFuzzed: a skill is read, or has problems that stand somewhere in its text;
// one that is read comes back from its frozen form as it was.
func checkFuzzed(t *testing.T, manifest, prose string) {
	s, ps := &Skill{}, &document.Problems{}
	s.parseManifest(ps, []byte(manifest), "notes")
	s.readDocument(ps, &document.Problems{}, []byte(prose))
	for _, p := range ps.Public("f") {
		if p.Code == "" || p.Message == "" || p.Line < 1 || p.Line > strings.Count(manifest+prose, "\n")+2 || p.Column < 1 || len(p.Message) > 2000 {
			t.Fatalf("%+v", p)
		}
	}
	if len(*ps) > 0 {
		return
	}
	if s.ID != "notes" || s.Tools == nil || s.SubSkills == nil || len(s.Verbs) == 0 || s.Description == "" {
		t.Fatalf("%+v was accepted", s)
	}
	back, err := Thaw(s.Freeze())
	if err != nil {
		t.Fatalf("%v\n%s", err, s.Freeze())
	}
	if back.Digest() != s.Digest() {
		t.Fatal("another digest came back")
	}
}
