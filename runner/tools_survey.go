package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
)

// surveyed is what was found out about one server.
type surveyed struct {
	server   string
	listing  *tool.Listing // nil: it could not be listed
	findings []tipstaff.ToolFinding
}

func (s *surveyed) find(level, code, tool, format string, args ...any) {
	s.findings = append(s.findings, tipstaff.ToolFinding{Level: level, Code: code, Server: s.server, Tool: tool, Message: fmt.Sprintf(format, args...)})
}

// survey lists servers, all at the same time. One that fails says so and harms no
// other. hold says whether those that are not what the lock holds are started.
func (t toolbox) survey(ctx context.Context, d *catalog, names []string, hold func(*tool.Manager, *tool.Lock)) []*surveyed {
	servers, close := t.servers(d.manifest)
	defer close()
	manager := tool.NewManager(d.manifest, servers)
	hold(manager, d.lock)
	defer manager.Close()
	all := make([]*surveyed, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		all[i] = &surveyed{server: name}
		wg.Go(func() { all[i].look(ctx, manager) })
	}
	wg.Wait()
	return all
}

func (s *surveyed) look(ctx context.Context, manager *tool.Manager) {
	listing, err := manager.List(ctx, s.server)
	var refused *flow.Error
	switch {
	case errors.As(err, &refused):
		s.find(tipstaff.FindingError, refused.Code, "", "%s", refused.Message)
		return
	case err != nil:
		s.find(tipstaff.FindingError, tool.CodeUnavailable, "", "server %q cannot be listed: %v", s.server, err)
		return
	}
	s.listing = listing
	for _, name := range listing.Missing {
		s.find(tipstaff.FindingError, tool.CodeUnknown, name, "the manifest declares %s/%s, which the server does not list", s.server, name)
	}
	for name, why := range listing.Broken {
		s.find(tipstaff.FindingError, tool.CodeUnknown, name, "%s/%s cannot be used: %s", s.server, name, why)
	}
	for _, name := range listing.Extra {
		s.find(tipstaff.FindingNote, "undeclared_tool", name, "the server lists %s/%s, which the manifest does not declare", s.server, name)
	}
	slices.SortStableFunc(s.findings, func(a, b tipstaff.ToolFinding) int { return cmp.Compare(a.Tool, b.Tool) })
}
