package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/skill"
)

// skill writes a skill, version 1.0.0, into the workspace.
func (b *bed) skill(id, fields string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Join(b.dir, "skills", id), 0o755); err != nil {
		b.t.Fatal(err)
	}
	b.write("skills/"+id+"/skill.yaml", fmt.Sprintf("id: %s\nversion: 1.0.0\nverbs: [find]\n%s\n", id, fields))
	b.write("skills/"+id+"/SKILL.md", fmt.Sprintf("---\nname: %s\ndescription: Does %s.\n---\nHow to.\n", id, id))
}

// draft is what intent.draft says about skills.
type draft struct {
	Skill       string            `json:"skill"`
	SkillDigest string            `json:"skill_digest"`
	Frozen      map[string]string `json:"frozen"`
}

func (b *bed) draft(run tipstaff.ID) (d draft) {
	b.t.Helper()
	if err := json.Unmarshal(b.events(run)[0].Body, &d); err != nil {
		b.t.Fatal(err)
	}
	return d
}

// frozenSkills are the names of what was frozen that are skills.
func (d draft) frozenSkills() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(d.Frozen)), func(name string) bool { return !strings.HasPrefix(name, "skill://") })
}

func TestASkillIsFrozenIntoTheRun(t *testing.T) {
	b := newBed(t)
	b.skill("reader", "tools: [mcp://builtin/read_file@1.0.0]\nsub_skills: none")
	loaded, err := skill.Load(filepath.Join(b.dir, "skills/reader"))
	if err != nil {
		t.Fatal(err)
	}
	run, driven := b.run("skill: skill://reader@1.0.0\nroot: {id: ok, kind: gate, question: Go?}")
	if driven.Outcome != "parked" {
		t.Fatalf("%+v", driven)
	}
	d := b.draft(run)
	if d.Skill != "skill://reader@1.0.0" || d.SkillDigest != loaded.Digest() {
		t.Errorf("the draft has %s %s, want %s", d.Skill, d.SkillDigest, loaded.Digest())
	}
	for digest, want := range map[string]string{d.Frozen[d.Skill]: string(loaded.Freeze()), d.SkillDigest: string(loaded.Identity())} {
		if got, err := b.Artifact(cli(), run, digest); err != nil || string(got) != want {
			t.Errorf("%s is %s, %v; want %s", digest, got, err, want)
		}
	}
	b.verified(run)
}

func TestAPlanWithoutASkillFreezesNone(t *testing.T) {
	b := newBed(t)
	b.skill("reader", "tools: none\nsub_skills: none")
	run, _ := b.run("root: {id: ok, kind: gate, question: Go?}")
	if d := b.draft(run); d.Skill != "" || d.SkillDigest != "" || len(d.frozenSkills()) > 0 {
		t.Errorf("%+v", d)
	}
}

// What a child run may dispatch in turn is frozen too: an edit between parent and
// grandchild would change a run that has begun.
func TestSkillsOfChildRunsAreFrozen(t *testing.T) {
	b := newBed(t)
	b.skill("leaf", "tools: none\nsub_skills: [skill://missing@1.0.0]")
	b.skill("middle", "tools: none\nsub_skills: [skill://leaf@1.0.0, skill://middle@1.0.0]")
	b.skill("aside", "tools: none\nsub_skills: none")
	b.skill("top", "tools: none\nsub_skills: [skill://middle@1.0.0, skill://aside@1.0.0]")
	for _, id := range []string{"middle", "leaf"} { // without a plan a child would need a model
		b.write("skills/"+id+"/plan.yaml", fmt.Sprintf("kind: plan\nversion: 1\nskill: skill://%s@1.0.0\nroot: {id: ok, kind: gate, question: Go?}\n", id))
	}
	run, driven := b.run(`skill: skill://top@1.0.0
root: {kind: sequential, children: [{id: ok, kind: gate, question: Go?}, {id: sub, kind: sub_dispatch, skill: skill://middle@1.0.0}]}`,
		func(r *tipstaff.StartRequest) { r.AllowSubDispatch = true })
	if driven.Outcome != "parked" {
		t.Fatalf("%+v", driven)
	}
	if got, want := b.draft(run).frozenSkills(), []string{"skill://leaf@1.0.0", "skill://middle@1.0.0", "skill://top@1.0.0"}; !slices.Equal(got, want) {
		t.Errorf("frozen %v, want %v", got, want)
	}
}

func TestAFailureModeOutlivesItsSkill(t *testing.T) {
	b := newBed(t)
	b.skill("reader", "tools: [mcp://builtin/read_file@1.0.0]\nsub_skills: none\nfailure_modes: [{reason: tool_error, action: gate, note: Look.}]")
	run, driven := b.run(`skill: skill://reader@1.0.0
root: {kind: sequential, children: [{id: read, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: late.txt}}]}
outputs: {text: "${read.output.text}"}`)
	gates := b.get(run).OpenGates
	if driven.Outcome != "parked" || len(gates) != 1 || gates[0].Key != "root/read/failure" || gates[0].Kind != tipstaff.Question {
		t.Fatalf("%+v %+v", driven, gates)
	}
	if err := os.RemoveAll(filepath.Join(b.dir, "skills")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.decide(run, "root/read/failure", "retry"); err != nil {
		t.Fatal(err)
	}
	if driven := b.resume(run); driven.Outcome != "parked" { // still not there: asked again
		t.Fatalf("%+v", driven)
	}
	b.write("late.txt", "at last")
	if _, err := b.decide(run, "root/read/failure#2", "retry"); err != nil {
		t.Fatal(err)
	}
	if driven := b.resume(run); driven.Outcome != "success" {
		t.Fatalf("%+v", driven)
	}
	b.verified(run)
}

func TestLettingItFailKeepsTheReason(t *testing.T) {
	b := newBed(t)
	b.skill("reader", "tools: [mcp://builtin/read_file@1.0.0]\nsub_skills: none\nfailure_modes: [{reason: tool_error, action: gate}]")
	run, _ := b.run(`skill: skill://reader@1.0.0
root: {id: read, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: never.txt}}`)
	if _, err := b.decide(run, "root/failure", "fail"); err != nil {
		t.Fatal(err)
	}
	if driven := b.resume(run); driven.State != tipstaff.Failed || driven.Reason != "tool_error" {
		t.Errorf("%+v", driven)
	}
	b.verified(run)
}

func TestSkillKeeperWithoutAFolder(t *testing.T) {
	k := runner.SkillKeeper{Runner: runner.New(runner.Config{Workspace: t.TempDir()})}
	if list, err := k.List(context.Background()); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
	if list, err := k.Check(context.Background(), ""); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
	_, err := k.Show(context.Background(), "skill://a@1.0.0")
	wantCode(t, err, tipstaff.InvalidArgument)
	_, err = k.Check(context.Background(), filepath.Join(t.TempDir(), "missing"))
	wantCode(t, err, tipstaff.InvalidArgument)
}
