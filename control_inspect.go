package tipstaff

import (
	"context"
	"errors"
	"slices"
)

// Verify proves what a run has done so far.
func (c Control) Verify(ctx context.Context, req RunRequest) (VerifiedRun, error) {
	report, err := c.Runs.Verify(ctx, VerifyRequest{Run: req.Run, Open: true})
	if err != nil {
		return VerifiedRun{}, err
	}
	got := VerifiedRun{Run: req.Run, HeadSeq: report.Seq, HeadHash: report.Head, Integrity: report.Integrity, Conformance: report.Conformance}
	for e, err := range c.Runs.Events(ctx, EventsRequest{Run: req.Run, Limit: 1}) {
		if err == nil && e.Kind == KindIntentDraft {
			got.KeyID = BodyOf[IntentDraft](&e).Keys.Executor.ID().String()
		}
	}
	return got, nil
}

// Delivery is where the delivery of a run stands.
func (c Control) Delivery(ctx context.Context, req RunRequest) (DeliveryOf, error) {
	run, err := c.Runs.Get(ctx, req.Run)
	if err != nil {
		return DeliveryOf{}, err
	}
	state, err := DeliveryView(ctx, c.Runs, run, c.Present)
	if err != nil {
		return DeliveryOf{}, err
	}
	got := DeliveryOf{Run: req.Run, DeliveryState: state, Next: []NextCall{}}
	at := slices.IndexFunc(run.OpenGates, func(g Gate) bool { return g.ID == state.Gate })
	if at >= 0 {
		asked := AskedGate{req.Run, run.OpenGates[at]}
		got.Next = append(got.Next, CallerFrom(ctx).gateCall(asked, run.Control))
		for i, a := range got.Available {
			if call := decideCall(asked, a.Action); got.Next[0].Kind != PersonCall {
				got.Available[i].Next = &call
			}
		}
	}
	c.direct(ctx, got.Next)
	if state.Diff != nil {
		got.Next = append(got.Next, readyCall(ToolRunDiff, "see what has changed", map[string]any{"run_id": req.Run, "mode": DiffPreview}))
	}
	return got, nil
}

// Validate says what a start would of a document. One that cannot be run is no error.
func (c Control) Validate(ctx context.Context, req PlanValidate) (PlanValidated, error) {
	got := PlanValidated{Errors: []Problem{}, Warnings: []Problem{}}
	if (req.Program == "") == (req.ProgramFile == "") {
		return got, Errorf(InvalidArgument, "give one of program and program_file")
	}
	start := RunStart{Program: req.Program, ProgramFile: req.ProgramFile}.document()
	v, err := c.Runs.Validate(ctx, ValidateRequest{Start: &start})
	if e := (*Error)(nil); errors.As(err, &e) && (e.Code == InvalidProgram || e.Code == Refused) {
		if got.Errors = append(got.Errors, e.Problems...); len(e.Problems) == 0 {
			got.Errors = append(got.Errors, Problem{Code: string(e.Code), Message: e.Message})
		}
		return got, nil
	}
	if err != nil {
		return got, err
	}
	got.OK, got.Kind, got.Name, got.Digest = true, v.Program.Kind, v.Program.Name, v.Program.Digest
	got.Warnings = append(got.Warnings, v.Warnings...)
	got.Bounds = v.Bounds
	kinds := map[string]int{}
	v.Outline.describe(&got, kinds)
	got.Summary = summaryOf(v.Program.Name, kinds)
	return got, nil
}

// describe adds what an outline tells of a program, and counts its nodes by kind.
func (o *Outline) describe(to *PlanValidated, kinds map[string]int) {
	if o == nil {
		return
	}
	switch o.Kind {
	case ProgramPipeline:
	case "stage":
		to.Stages = append(to.Stages, o.ID)
	case "tool_call":
		if !slices.Contains(to.Tools, o.Label) {
			to.Tools = append(to.Tools, o.Label)
		}
	case "gate":
		to.Gates = append(to.Gates, o.Label)
	}
	if o.Kind != ProgramPipeline {
		kinds[o.Kind]++
		to.Nodes = append(to.Nodes, EvidenceNode{Path: o.Path, Kind: o.Kind, Label: o.Label})
	}
	for _, child := range o.Children {
		child.describe(to, kinds)
	}
}
