package web

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/tipstaff/tipstaff"
)

// ctx is that of the request, with its caller.
func (c *call) ctx() context.Context { return c.r.Context() }

// message takes one. It is waited for until the server goes down, and told as it stands.
func (c *call) message() (any, error) {
	var msg tipstaff.Message
	err := c.read(&msg, false)
	if err == nil {
		msg.Key, err = c.key()
	}
	if err != nil {
		return nil, err
	}
	ctx, stop := c.s.untilStopped(c.ctx())
	defer stop()
	got, err := c.s.control.TakeMessage(ctx, msg)
	if err != nil || got.State.Terminal() {
		return got, err
	}
	return with{http.StatusAccepted, got}, nil
}

// Accepted is a run that goes on by itself.
type Accepted struct {
	tipstaff.Submitted
	EventsURL string `json:"events_url"`
}

func acceptedRun(s tipstaff.Submitted) with {
	return with{http.StatusAccepted, Accepted{s, "/runs/" + s.Run.String() + "/events"}}
}

func (c *call) submit() (any, error) {
	var s tipstaff.Submission
	err := c.read(&s, false)
	if err == nil {
		s.Key, err = c.key()
	}
	if err != nil {
		return nil, err
	}
	if s.DryRun {
		return c.s.control.Check(c.ctx(), s)
	}
	got, err := c.s.control.Submit(c.ctx(), s)
	return acceptedRun(got), err
}

// RunPage is a page of runs.
type RunPage struct {
	Items []tipstaff.HistoryRun `json:"items"`
	Total int                   `json:"total"`
	Next  tipstaff.ID           `json:"next,omitzero"` // the after of the next page
}

// runsPerPage is how many runs are listed, where nobody says.
const runsPerPage = 50

func (c *call) history() (any, error) {
	req := tipstaff.HistoryRequest{Status: c.list("status"), Project: c.query.Get("project"), Thread: c.query.Get("thread"), Session: c.query.Get("session")}
	var err error
	if req.Limit, err = c.limit(); err != nil {
		return nil, err
	}
	if req.Before, err = c.id("after"); err != nil {
		return nil, err
	}
	if req.Limit == 0 {
		req.Limit = runsPerPage
	}
	got, err := c.s.control.History(c.ctx(), req)
	return RunPage{got.Runs, got.Total, got.Next}, err
}

func (c *call) status() (any, error) {
	return c.s.control.Status(c.ctx(), tipstaff.StatusRequest{Run: c.run, Include: c.list("include")})
}

func (c *call) diagnose() (any, error) {
	return c.s.control.Diagnose(c.ctx(), tipstaff.RunRequest{Run: c.run})
}

func (c *call) used() (any, error) {
	return c.s.control.Metrics(c.ctx(), tipstaff.RunRequest{Run: c.run})
}

func (c *call) evidence() (any, error) {
	req := tipstaff.EvidenceRequest{Run: c.run, Slice: c.query.Get("slice"), SeverityMin: c.query.Get("severity_min"), Stages: c.list("stages")}
	var err error
	if req.Limit, err = c.limit(); err != nil {
		return nil, err
	}
	offset, err := c.number("offset")
	if err != nil {
		return nil, err
	}
	req.Offset = int(offset)
	return c.s.control.Evidence(c.ctx(), req)
}

func (c *call) diff() (any, error) {
	most, err := c.number("max_bytes")
	if err != nil {
		return nil, err
	}
	return c.s.control.Diff(c.ctx(), tipstaff.DiffRequest{Run: c.run, Mode: c.query.Get("mode"), Path: c.query.Get("path"), Stage: c.query.Get("stage"), Max: int(most)})
}

func (c *call) delivery() (any, error) {
	return c.s.control.Delivery(c.ctx(), tipstaff.RunRequest{Run: c.run})
}

func (c *call) verify() (any, error) {
	return c.s.control.Verify(c.ctx(), tipstaff.RunRequest{Run: c.run})
}

// events is a page of records, or a stream of them.
func (c *call) events() (any, error) {
	after, err := c.number("after")
	if err != nil {
		return nil, err
	}
	if acceptsEvents(c.r) {
		return c.stream(after)
	}
	limit, err := c.limit()
	if err != nil {
		return nil, err
	}
	return c.s.control.Tail(c.ctx(), tipstaff.TailRequest{Run: c.run, After: after, Limit: limit, Kinds: c.list("kinds"), Detail: c.query.Get("detail")})
}

func (c *call) envelopes() (any, error) {
	after, err := c.number("after")
	if err != nil {
		return nil, err
	}
	limit, err := c.limit()
	if err != nil {
		return nil, err
	}
	return c.s.control.SignedRecords(c.ctx(), tipstaff.RecordsRequest{Run: c.run, After: after, Limit: limit})
}

func (c *call) envelope() (any, error) {
	seq, err := strconv.ParseInt(c.name, 10, 64)
	if err != nil || seq < 1 {
		return nil, refuse(http.StatusBadRequest, "%s is not the number of a record", tipstaff.Quote(c.name, 100))
	}
	record, err := c.s.control.SignedRecord(c.ctx(), c.run, seq)
	return stored{jsonType, record}, err
}

// artifact is sent as something to keep: what runs make is not ours to show.
func (c *call) artifact() (any, error) {
	content, err := c.s.control.Content(c.ctx(), c.run, c.name)
	if err == nil {
		c.w.Header().Set("Content-Disposition", "attachment")
	}
	return stored{"application/octet-stream", content}, err
}

func (c *call) gate() (any, error) { return c.s.control.Runs.Gate(c.ctx(), c.run, c.name) }

// Decision is one answer to the gate that the path names.
type Decision struct {
	Action        string          `json:"action"`
	Answer        json.RawMessage `json:"answer,omitempty"`
	Feedback      string          `json:"feedback,omitempty"`
	Note          string          `json:"note,omitempty"`
	DecidedBy     string          `json:"decided_by,omitempty"`
	SubjectDigest string          `json:"subject_digest,omitempty"`
	Resume        bool            `json:"resume,omitempty"` // have the run go on
}

// decide answers with the decision as it is stored.
func (c *call) decide() (any, error) {
	var d Decision
	if err := c.read(&d, false); err != nil {
		return nil, err
	}
	got, err := c.s.control.Answer(c.ctx(), tipstaff.Answer{Resume: d.Resume, DecideRequest: tipstaff.DecideRequest{Run: c.run, Gate: c.name, Action: d.Action, Answer: d.Answer,
		Feedback: d.Feedback, Note: d.Note, DecidedBy: d.DecidedBy, SubjectDigest: d.SubjectDigest, Via: surface}})
	if err == nil && got.Replayed {
		c.w.Header().Set("Tipstaff-Replayed", "true")
	}
	return stored{jsonType, got.Raw}, err
}

func (c *call) resume() (any, error) {
	var req tipstaff.Continuation
	if err := c.read(&req, true); err != nil {
		return nil, err
	}
	req.Run = c.run
	got, err := c.s.control.Continue(c.ctx(), req)
	return acceptedRun(got), err
}

// Cancel asks for the end of a run.
type Cancel struct {
	Mode   string `json:"mode,omitempty"` // graceful or hard; "": graceful
	Reason string `json:"reason,omitempty"`
}

func (c *call) cancel() (any, error) {
	var req Cancel
	if err := c.read(&req, true); err != nil {
		return nil, err
	}
	if req.Mode != "" && req.Mode != "graceful" && req.Mode != "hard" {
		return nil, refuse(http.StatusBadRequest, "mode is %s: it is graceful or hard", tipstaff.Quote(req.Mode, 100))
	}
	got, err := c.s.control.Runs.Cancel(c.ctx(), tipstaff.CancelRequest{Run: c.run, Reason: req.Reason, Hard: req.Mode == "hard"})
	if err == nil && got.How == tipstaff.CancelDone {
		err = tipstaff.Errorf(tipstaff.RunEnded, "run %s has ended before: it is %s", c.run, got.State)
	}
	return with{http.StatusAccepted, got}, err
}

func (c *call) fork() (any, error) {
	var req tipstaff.Branching
	if err := c.read(&req, true); err != nil {
		return nil, err
	}
	req.Run = c.run
	got, err := c.s.control.Branch(c.ctx(), req)
	return with{http.StatusAccepted, got}, err
}

func (c *call) pending() (any, error) {
	var req tipstaff.PendingRequest
	var err error
	if req.Limit, err = c.limit(); err != nil {
		return nil, err
	}
	if req.After, err = c.id("after"); err != nil {
		return nil, err
	}
	for _, kind := range c.list("kinds") {
		req.Kinds = append(req.Kinds, tipstaff.GateKind(kind))
	}
	return c.s.control.Pending(c.ctx(), req)
}

func (c *call) threads() (any, error) {
	var req tipstaff.ThreadsRequest
	var err error
	if req.Limit, err = c.limit(); err != nil {
		return nil, err
	}
	if req.Before, err = c.id("before"); err != nil {
		return nil, err
	}
	return c.s.control.Runs.Threads(c.ctx(), req)
}
