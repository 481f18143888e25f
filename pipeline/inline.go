package pipeline

import (
	"github.com/tipstaff/tipstaff/document"
)

// inline puts the files that a document names in the places where they are named:
// prompt for prompt_file, plan.document for plan.file. From then on the document
// depends on no file.
func (r *reader) inline(v *document.Value) {
	agents := v.Get("agents")
	if agents == nil {
		return
	}
	for _, agent := range agents.Items {
		for _, way := range []Way{WayModel, WayWorker} {
			if told := agent.Get(string(way)); told != nil {
				r.inlineMember(told, "prompt_file", "prompt", r.promptFile)
			}
		}
		if plan := agent.Get("plan"); plan != nil {
			r.inlineMember(plan, "file", "document", r.planFile)
		}
	}
}

// inlineMember replaces the member that names a file by one that holds what read
// makes of it. One that stays has been reported.
func (r *reader) inlineMember(v *document.Value, name, instead string, read func([]byte, *document.Value) *document.Value) {
	for i, m := range v.Members {
		if m.Key != name {
			continue
		}
		if v.Get(instead) != nil {
			r.ps.Add(document.CodeFieldInvalid, m.At, "", "%s and %s are two ways to say the same; one of them must go", instead, name)
			return
		}
		src, ok := r.file(m.Value, name, instead)
		if !ok {
			return
		}
		if content := read(src, m.Value); content != nil {
			v.Members[i] = document.Member{Key: instead, At: m.At, Value: content}
		}
		return
	}
}

func (r *reader) file(name *document.Value, field, instead string) ([]byte, bool) {
	switch {
	case name.Kind != document.Text:
		r.ps.Add(document.CodeFieldType, name.At, "", "%s must be a string, not %v", field, name.Kind)
		return nil, false
	case r.resolver.File == nil:
		r.ps.Add(document.CodeFieldInvalid, name.At, "", "this document cannot name files, having no folder of its own; write %s", instead)
		return nil, false
	}
	src, err := r.resolver.File(name.Text)
	if err != nil {
		r.ps.Add(document.CodeFieldInvalid, name.At, "", "%s cannot be read: %v", field, err)
		return nil, false
	}
	if len(src) > MaxSize {
		r.ps.Add(document.CodeLimit, name.At, "", "%s has more than %d bytes, which are the most that are read", document.Brief(name.Text), MaxSize)
		return nil, false
	}
	return src, true
}

func (r *reader) promptFile(src []byte, name *document.Value) *document.Value {
	if fault := document.CheckText(src); fault != nil {
		r.within(name, *fault)
		return nil
	}
	return &document.Value{Kind: document.Text, Text: string(src), At: name.At}
}

func (r *reader) planFile(src []byte, name *document.Value) *document.Value {
	v, faults := document.ReadAll(src, MaxSize)
	for _, fault := range faults {
		r.within(name, fault)
	}
	if len(faults) > 0 {
		return nil
	}
	move(v, name.At)
	return v
}

// within reports a fault of a file at the place where the file is named.
func (r *reader) within(name *document.Value, fault document.Problem) {
	r.ps.Add(fault.Code, name.At, "", "%s:%d:%d: %s", name.Text, fault.At.Line, fault.At.Column, fault.Message)
}

// move gives a value that came from another file one place in this one.
func move(v *document.Value, to document.Position) {
	v.At = to
	for _, item := range v.Items {
		move(item, to)
	}
	for i := range v.Members {
		v.Members[i].At = to
		move(v.Members[i].Value, to)
	}
}
