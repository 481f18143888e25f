package runner

import (
	"context"
	"testing"

	"github.com/tipstaff/tipstaff"
)

// askedSessions is a store that notes whose sessions were asked for.
type askedSessions struct {
	Workers
	users []string
}

func (a *askedSessions) WorkerSessions(_ context.Context, q tipstaff.SessionQuery, user string) ([]tipstaff.WorkerSession, error) {
	a.users = append(a.users, user)
	return []tipstaff.WorkerSession{{ID: q.Prefix, User: user}}, nil
}

// Nobody is shown the conversations of others, not even who may see all runs.
func TestSessionsAreOnesOwn(t *testing.T) {
	store := &askedSessions{}
	sessions := (&Runner{Config: Config{Workers: store}}).Sessions()
	for _, c := range []tipstaff.Caller{{User: "alice", Scopes: []string{tipstaff.ScopeRead}}, {User: "root", Scopes: []string{tipstaff.ScopeAdmin}}} {
		list, err := sessions.WorkerSessions(tipstaff.WithCaller(t.Context(), c), tipstaff.SessionQuery{Prefix: "01"})
		if err != nil || len(list) != 1 || list[0].User != c.User || list[0].ID != "01" {
			t.Errorf("%s is shown %v, %v", c.User, list, err)
		}
	}
	bob := tipstaff.WithCaller(t.Context(), tipstaff.Caller{User: "bob", Surface: "http", Scopes: []string{tipstaff.ScopeDecide}})
	if _, err := sessions.WorkerSessions(bob, tipstaff.SessionQuery{}); tipstaff.CodeOf(err) != tipstaff.Forbidden || len(store.users) != 2 {
		t.Errorf("bob may not read, and is answered with %v", err)
	}
}
