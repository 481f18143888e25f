package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// goesOn reports whether an existing session is meant.
func (o *chatOptions) goesOn() bool { return o.resume || o.session != "" }

// enter finds the session that the command line names, if it does.
func (c *conversation) enter(ctx context.Context) error {
	ref := c.session
	switch {
	case c.resume:
		ref = "@"
	case ref == "":
		return nil
	}
	return c.switchTo(ctx, ref)
}

// switchTo makes the session that ref names the one that is talked in, with the agent
// that it was talked in with.
func (c *conversation) switchTo(ctx context.Context, ref string) error {
	last, err := findSession(ctx, c.svc, ref)
	if err != nil {
		return err
	}
	c.session, c.former = last.Turn.Session, ""
	if last.Turn.Agent != "default" {
		c.former = last.Turn.Agent
	}
	return nil
}

// findSession is the last turn of the session that ref names: its id, the id of a turn of
// it, a unique prefix of either, or @ for the newest of one's own.
func findSession(ctx context.Context, svc tipstaff.Service, ref string) (tipstaff.Run, error) {
	unknown := tipstaff.Errorf(tipstaff.InvalidArgument, "there is no session %q", ref).
		WithHint("`tipstaff chat --list` lists them; without --session a new one begins")
	if ref == "@" {
		page, err := svc.List(ctx, tipstaff.ListRequest{Heads: true, Own: true, Limit: 1})
		if err == nil && len(page.Runs) == 0 {
			err = tipstaff.Errorf(tipstaff.RunNotFound, "there is no session yet").WithHint("begin one: tipstaff chat")
		}
		if err != nil {
			return tipstaff.Run{}, err
		}
		return page.Runs[0], nil
	}
	if !looksLikeRun(ref) {
		return tipstaff.Run{}, unknown
	}
	const enough = 4
	heads, err := svc.List(ctx, tipstaff.ListRequest{Heads: true, Prefix: ref, Limit: enough})
	if err != nil {
		return tipstaff.Run{}, err
	}
	found := heads.Runs
	turns, err := svc.List(ctx, tipstaff.ListRequest{Prefix: ref, Limit: enough})
	if err != nil {
		return tipstaff.Run{}, err
	}
	for _, r := range turns.Runs {
		switch {
		case r.Turn == nil && len(ref) == idLength:
			return r, tipstaff.Errorf(tipstaff.InvalidArgument, "run %s is a %s, no turn of a session", r.ID, r.Program.Kind).WithHint("`tipstaff chat --list` lists the sessions")
		case r.Turn == nil || slices.ContainsFunc(found, func(f tipstaff.Run) bool { return f.Turn.Session == r.Turn.Session }):
			continue
		}
		head, err := svc.List(ctx, tipstaff.ListRequest{Heads: true, Prefix: r.Turn.Session, Limit: 1})
		if err != nil {
			return tipstaff.Run{}, err
		}
		found = append(found, head.Runs...)
	}
	switch len(found) {
	case 0:
		return tipstaff.Run{}, unknown
	case 1:
		return found[0], nil
	}
	var ids []string
	for _, r := range found[:min(len(found), enough)] {
		ids = append(ids, r.Turn.Session)
	}
	return tipstaff.Run{}, tipstaff.Errorf(tipstaff.InvalidArgument, "more than one session, or turn of one, begins with %s", ref).
		WithHint("give more of the id, for example %s", strings.Join(ids, " or "))
}

// introduce says who answers, where, and in which session.
func (c *conversation) introduce(t *tipstaff.TurnStatus, warnings []tipstaff.Problem) {
	for _, w := range warnings {
		c.tells(clean(w.Message))
	}
	if t == nil || c.json {
		return
	}
	session := "a new session"
	if t.Session != "" {
		session = fmt.Sprintf("session %s, turn %d", t.Session, t.Number)
	}
	where := "server " + c.server
	if c.server == "" {
		where = c.workspaceDir()
		if dir, err := filepath.Abs(where); err == nil {
			where = dir
		}
		where = "workspace " + where
	}
	text := fmt.Sprintf("agent %s, model %s, %s, %s", t.Agent, t.Model, session, where)
	c.tells(line{say(dim, text)}.text(c.env.colored(c.env.StderrTTY)))
}

// mostRecalled is how many turns of a conversation are shown to somebody who enters it.
const mostRecalled = 3

// recall shows how the conversation ended that is gone on with.
func (c *conversation) recall(ctx context.Context) error {
	page, err := c.svc.List(ctx, tipstaff.ListRequest{Session: c.session, Limit: mostRecalled})
	if err != nil || len(page.Runs) == 0 {
		return err
	}
	newest := page.Runs[0]
	if before := newest.Turn.Number - int64(len(page.Runs)); before > 0 {
		text := fmt.Sprintf("%s before; to see all:\n  %s", plural(int(before), "turn"), c.invocation("show", newest.ID.String(), "--transcript"))
		c.tells(text)
	}
	for _, r := range slices.Backward(page.Runs) {
		said, err := tipstaff.Transcript(ctx, c.svc, r)
		if err != nil {
			return err
		}
		var b strings.Builder
		printTranscript(&b, said, brief, c.env.colored(c.env.StderrTTY))
		c.tells(strings.TrimSuffix(b.String(), "\n"))
	}
	return nil
}
