package pipeline

import (
	"maps"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
)

// Clone is a deep copy that shares nothing with e and keeps every type: whole
// numbers and floats, nil and empty. It keeps the identity too; only forks get a
// new one.
func (e *Envelope) Clone() *Envelope {
	if e == nil {
		return nil
	}
	c := *e
	c.Metadata = cloneObject(e.Metadata)
	c.StageOrder = slices.Clone(e.StageOrder)
	c.Outputs = cloneSlots(e.Outputs)
	c.Prior = cloneSlots(e.Prior)
	c.Frontier = slices.Clone(e.Frontier)
	c.ActiveStages = slices.Clone(e.ActiveStages)
	c.CompletedStages = slices.Clone(e.CompletedStages)
	c.FailedStages = maps.Clone(e.FailedStages)
	c.SkippedStages = maps.Clone(e.SkippedStages)
	c.EdgeCounts = slices.Clone(e.EdgeCounts)
	c.Visits = maps.Clone(e.Visits)
	c.CompletedAt = cloneOf(e.CompletedAt)
	c.Interrupts = cloneEach(e.Interrupts, Interrupt.clone)
	c.Goals = slices.Clone(e.Goals)
	c.Rounds = cloneEach(e.Rounds, Round.clone)
	c.Feedback = slices.Clone(e.Feedback)
	c.Waivers = cloneEach(e.Waivers, cloneWaiver)
	c.Errors = slices.Clone(e.Errors)
	c.ProcessingHistory = cloneEach(e.ProcessingHistory, ProcessingRecord.clone)
	c.Rollbacks = cloneEach(e.Rollbacks, Rollback.clone)
	c.at = e.at.clone()
	c.stop = cloneOf(e.stop)
	c.slots = slotCache{} // it knows the slots of e, not these
	return &c
}

// cloneValue copies a normalised value. Strings and numbers cannot be changed and
// stay what they are.
func cloneValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return cloneObject(v)
	case []any:
		if v == nil {
			return v
		}
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = cloneValue(item)
		}
		return list
	}
	return v
}

// cloneObject has the runtime copy the whole and then replaces what can be changed:
// most members cannot.
func cloneObject(object map[string]any) map[string]any {
	c := maps.Clone(object)
	for key, v := range object {
		if hasParts(v) {
			c[key] = cloneValue(v)
		}
	}
	return c
}

func hasParts(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

func cloneSlots(slots map[string]map[string]any) map[string]map[string]any {
	if slots == nil {
		return nil
	}
	c := make(map[string]map[string]any, len(slots))
	for key, slot := range slots {
		c[key] = cloneObject(slot)
	}
	return c
}

// cloneEach copies a list whose items have parts of their own.
func cloneEach[T any](list []T, clone func(T) T) []T {
	if list == nil {
		return nil
	}
	c := make([]T, len(list))
	for i, item := range list {
		c[i] = clone(item)
	}
	return c
}

func cloneOf[T bool | int64 | time.Time](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

func (i Interrupt) clone() Interrupt {
	i.Data = cloneObject(i.Data)
	i.Response = i.Response.clone()
	return i
}

func (r *Response) clone() *Response {
	if r == nil {
		return nil
	}
	c := *r
	c.Approved = cloneOf(r.Approved)
	c.Data = cloneValue(r.Data)
	return &c
}

func (r Round) clone() Round {
	r.Satisfied = slices.Clone(r.Satisfied)
	return r
}

func cloneWaiver(w tipstaff.Waiver) tipstaff.Waiver {
	w.FindingIDs = slices.Clone(w.FindingIDs)
	return w
}

func (r ProcessingRecord) clone() ProcessingRecord {
	r.CompletedAt = cloneOf(r.CompletedAt)
	return r
}

func (r Rollback) clone() Rollback {
	r.Counters.EdgeCounts = slices.Clone(r.Counters.EdgeCounts)
	r.Counters.Visits = maps.Clone(r.Counters.Visits)
	r.Outputs = cloneSlots(r.Outputs)
	r.Metadata = cloneObject(r.Metadata)
	r.Raised = maps.Clone(r.Raised)
	return r
}

func (b *boundary) clone() *boundary {
	if b == nil {
		return nil
	}
	c := *b
	return &c
}
