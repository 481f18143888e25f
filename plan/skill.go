package plan

import (
	"errors"
	"maps"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

// ownSkill looks up the skill that the document is written for, and checks that
// the document takes what the skill is given and keeps what it promises.
func (v *validator) ownSkill() {
	d := v.d
	if d.Skill == "" {
		return
	}
	at := d.place("skill")
	if !v.skillURI(d.Skill, at, "skill") || v.r == nil {
		return
	}
	info := v.r.Skill(d.Skill)
	v.trouble(info.Trouble, at, "skill", "the skill cannot be used")
	if info.Trouble.Code != "" {
		return
	}
	v.skill = &info
	for _, in := range d.Inputs {
		if _, known := info.Inputs[in.Name]; info.Inputs != nil && !known {
			v.add(codeInputUnknown, in.At, "inputs."+in.Name, "%s has no input %s", document.Brief(d.Skill), document.Brief(in.Name))
		}
	}
	for _, name := range info.Outputs {
		if d.written.Find("outputs", name) == nil {
			v.add(document.CodeFieldMissing, at, "outputs", "%s promises the output %s, which the plan does not have", document.Brief(d.Skill), document.Brief(name))
		}
	}
}

// skillURI reports whether a skill is pinned.
func (v *validator) skillURI(uri string, at document.Position, path string) bool {
	_, err := tipstaff.ParseSkillURI(uri)
	switch {
	case errors.Is(err, tipstaff.ErrUnpinned):
		v.add(codeUnpinnedSkill, at, path, "%q is not pinned to a version; write skill://name@1.2.3", document.Brief(uri))
	case err != nil:
		v.add(codeInvalidURI, at, path, "%q is no skill URI; write skill://name@1.2.3", document.Brief(uri))
	}
	return err == nil
}

// dispatch checks a child run: that it may be started, by this document too, and
// that its skill can make something of what it is given.
func (v *validator) dispatch(n *Node, at document.Position) {
	if v.skill != nil && v.skill.SubSkills != nil && !slices.Contains(v.skill.SubSkills, n.Skill) {
		v.add(CodeSubDispatchDisabled, at, n.Path, "%s is not among the sub_skills of %s", document.Brief(n.Skill), document.Brief(v.d.Skill))
		return
	}
	if v.r == nil {
		return
	}
	if t := v.r.Dispatch(n.Skill, n.Agent); t.Code != "" {
		v.trouble(t, at, n.Path, "child runs cannot be started")
		return
	}
	info := v.r.Skill(n.Skill)
	v.trouble(info.Trouble, at, n.Path, "the skill cannot be used")
	if info.Trouble.Code == "" && info.Inputs != nil {
		v.handed(n, info.Inputs, at)
	}
}

// handed compares what a child run is given with what its skill takes.
func (v *validator) handed(n *Node, takes map[string]bool, at document.Position) {
	given := &document.Value{Kind: document.Object}
	if v := n.field("inputs", document.Object); v != nil {
		given = v
	}
	for _, m := range given.Members {
		if _, known := takes[m.Key]; !known {
			v.add(codeInputUnknown, m.At, n.Path, "%s has no input %s", document.Brief(n.Skill), document.Brief(m.Key))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(takes)) {
		if takes[name] && given.Get(name) == nil {
			v.add(CodeInputMissing, at, n.Path, "%s needs the input %s", document.Brief(n.Skill), document.Brief(name))
		}
	}
}
