package worker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// result is what somebody says that a worker would have reported, whose end nobody saw.
func (g Given) result() Result {
	res := Result{Outcome: Reported, Text: g.Text, Report: Report{Status: cmp.Or(g.Status, tipstaff.TaskNeedsReview), Outputs: g.Outputs, Data: g.Data, Verdict: g.Verdict}}
	if res.Report.Status == tipstaff.TaskPaused {
		res.Outcome = Paused
		res.Report.Question = g.Text
	}
	return res
}

// Given is the answer of use_result: what the worker would have reported.
type Given struct {
	Status  tipstaff.TaskStatus   `json:"status,omitempty"` // needs_review, unless it says paused
	Text    string                `json:"text,omitempty"`
	Data    json.RawMessage       `json:"data,omitempty"`
	Outputs []tipstaff.TaskOutput `json:"outputs,omitempty"`
	Verdict *Verdict              `json:"verdict,omitempty"`
}

// CheckGiven says why an answer cannot be what a worker would have reported; else what it
// comes to, and whether the work ends with it. reviews: the worker was to give a verdict.
func CheckGiven(answer, schema json.RawMessage, reviews bool) (out Output, ends bool, err error) {
	var g Given
	if err := arguments(answer, &g); err != nil {
		return out, false, err
	}
	switch {
	case g.Status != "" && g.Status != tipstaff.TaskNeedsReview && g.Status != tipstaff.TaskPaused:
		return out, false, fmt.Errorf("status %s is neither %s nor %s", tipstaff.Quote(string(g.Status), 40), tipstaff.TaskNeedsReview, tipstaff.TaskPaused)
	case g.Verdict != nil && !reviews:
		return out, false, errors.New("only a review gives a verdict")
	case g.Verdict != nil:
		if _, err := parseVerdict(flow.JSON(g.Verdict)); err != nil {
			return out, false, err
		}
	}
	if g.Data != nil {
		if err := checkData(schema, g.Data); err != nil {
			return out, false, fmt.Errorf("data does not fit the schema: %w", err)
		}
	}
	ends = g.Status != tipstaff.TaskPaused && !reviews
	if ends && g.Data == nil && schema != nil {
		if err := checkData(schema, json.RawMessage(g.Text)); err != nil {
			return out, false, fmt.Errorf("there is no data, and the text does not fit the schema: %w", err)
		}
	}
	return Output{Text: g.Text, Data: g.Data, Verdict: g.Verdict}, ends, nil
}
