package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
)

// shelf holds the catalog of a turn in the library form, and the gate over it.
type shelf struct {
	tools  Tools
	policy *policy.Policy
	fixed  *tool.Gate // that holds whatever is listed; nil: none

	mu      sync.Mutex
	catalog *Catalog
	gate    *tool.Gate
}

// list reads the catalog: in its order, every tool pinned.
func (s *shelf) list(ctx context.Context) (*Catalog, error) {
	listed, err := s.tools.Catalog(ctx)
	var failed *flow.Error
	switch {
	case errors.As(err, &failed):
		return nil, failed
	case err != nil:
		return nil, &flow.Error{Code: tool.CodeUnavailable, Message: fmt.Sprintf("the catalog cannot be read: %v", err), Retry: true}
	}
	c := &Catalog{Tools: []Tool{}}
	if listed != nil {
		c.Tools = append(c.Tools, listed.Tools...)
	}
	slices.SortStableFunc(c.Tools, func(a, b Tool) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Name, b.Name))
	})
	for i := range c.Tools {
		c.Tools[i].pin()
	}
	gate := s.fixed
	if gate == nil {
		if gate, err = gateOf(c, s.policy); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catalog, s.gate = c, gate
	return c, nil
}

// pin gives a tool that has no URI the one of its definition.
func (t *Tool) pin() {
	if t.URI != "" {
		return
	}
	if raw, err := canon.Form(t.Raw); err == nil { // else the gate says what is wrong with it
		t.URI = tipstaff.ToolURI{Server: t.Server, Tool: t.Name, Pin: flow.Digest(raw)}.String()
	}
}

func (s *shelf) listed() *Catalog {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.catalog
}

func (s *shelf) guarded() *tool.Gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gate
}
