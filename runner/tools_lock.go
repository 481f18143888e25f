package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/tool/builtin"
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

// Compare lists the servers, all at once, and compares.
func (t toolbox) Compare(ctx context.Context, servers []string) (tipstaff.PinReport, error) {
	d, err := t.open()
	if err != nil {
		return tipstaff.PinReport{}, err
	}
	names, err := d.external(servers)
	if err != nil {
		return tipstaff.PinReport{}, err
	}
	report := tipstaff.PinReport{Changes: []tipstaff.PinChange{}, Findings: []tipstaff.ToolFinding{}}
	next := d.lock
	for _, s := range t.survey(ctx, d, names, (*tool.Manager).Compare) {
		report.Findings = append(report.Findings, s.findings...)
		if s.listing == nil {
			continue
		}
		report.Changes = append(report.Changes, s.listing.Changes(d.manifest, d.lock)...)
		next = next.With(s.server, s.listing.Locked())
	}
	if len(servers) == 0 {
		for _, stale := range d.stale() {
			report.Changes = append(report.Changes, stale.changes...)
			next = next.With(stale.server, tool.LockedServer{})
		}
	}
	if err := ctx.Err(); err != nil {
		return report, err
	}
	report.Lock, report.Was, err = next.Proposal()
	return report, err
}

// Pin writes the lock that a report proposes.
func (t toolbox) Pin(_ context.Context, r tipstaff.PinReport) error {
	next, err := tool.ReadProposal(r.Lock, r.Was)
	if err == nil {
		err = next.Write(t.Workspace)
	}
	if err != nil {
		return &tipstaff.Error{Code: tipstaff.Refused, Message: err.Error(), Hint: "run the command again", Err: err}
	}
	return nil
}

// external are the servers that a lock is for: those that are named, else all.
func (d *catalog) external(named []string) ([]string, error) {
	for _, name := range named {
		if name == builtin.Name {
			return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "%s is locked by the binary and cannot be pinned", builtin.Name)
		}
		if _, ok := d.manifest.Server(name); !ok {
			return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "the manifest declares no server %q", name).
				WithHint("`tipstaff tools list` shows what is declared")
		}
	}
	if len(named) > 0 {
		return slices.Compact(slices.Sorted(slices.Values(named))), nil
	}
	var all []string
	for name := range d.manifest.Servers {
		if name != builtin.Name {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all, nil
}

// stale is what the lock holds of a server that is no longer declared.
type stale struct {
	server  string
	changes []tipstaff.PinChange
}

func (d *catalog) stale() []stale {
	var list []stale
	for name := range d.lock.Servers {
		if _, ok := d.manifest.Server(name); ok {
			continue
		}
		gone := tool.Listing{Server: name, Version: d.lock.Servers[name].Version, Package: d.lock.Servers[name].PackageDigest, Files: d.lock.Servers[name].Files}
		list = append(list, stale{name, gone.Changes(d.manifest, d.lock)})
	}
	slices.SortFunc(list, func(a, b stale) int { return cmp.Compare(a.server, b.server) })
	return list
}

// Verify looks at every declared server: first at what can be known without a
// connection, then, unless offline, at what it lists.
func (t toolbox) Verify(ctx context.Context, offline bool) (tipstaff.ToolReport, error) {
	d, err := t.open()
	if err != nil {
		return tipstaff.ToolReport{}, err
	}
	names, err := d.external(nil)
	if err != nil {
		return tipstaff.ToolReport{}, err
	}
	var listed []*surveyed
	if !offline {
		listed = t.survey(ctx, d, names, (*tool.Manager).Hold)
	}
	report := tipstaff.ToolReport{OK: true, Offline: offline, Servers: []tipstaff.ToolServer{}, Findings: []tipstaff.ToolFinding{}}
	for _, s := range d.checked(listed, t.Servers(d.manifest, t.Workspace, nil)) {
		report.Servers = append(report.Servers, d.summary(s))
		report.Findings = append(report.Findings, s.findings...)
	}
	for _, gone := range d.stale() {
		report.Findings = append(report.Findings, tipstaff.ToolFinding{Level: tipstaff.FindingNote, Code: "stale_lock", Server: gone.server,
			Message: fmt.Sprintf("%s holds tools of server %q, which the manifest does not declare", tool.LockName, gone.server)})
	}
	for _, f := range report.Findings {
		report.OK = report.OK && f.Level != tipstaff.FindingError
	}
	return report, ctx.Err()
}

// checked is every declared server, by name, all checked at the same time: there
// may be large packages to digest and many schemas to compile.
func (d *catalog) checked(listed []*surveyed, servers map[string]tool.Server) []*surveyed {
	all := slices.Clone(listed)
	for name := range d.manifest.Servers {
		if !slices.ContainsFunc(all, func(s *surveyed) bool { return s.server == name }) {
			all = append(all, &surveyed{server: name})
		}
	}
	slices.SortFunc(all, func(a, b *surveyed) int { return cmp.Compare(a.server, b.server) })
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(func() { d.check(s, servers[s.server]) })
	}
	wg.Wait()
	return all
}

// check adds what lock, packages and environment say to what a server listed.
func (d *catalog) check(s *surveyed, server tool.Server) {
	refused := d.lock.Ready(s.server, server)
	met := func(f tipstaff.ToolFinding) bool { return f.Code == refused.Code && f.Tool == "" } // when it was started
	if refused != nil && !slices.ContainsFunc(s.findings, met) {
		s.find(tipstaff.FindingError, refused.Code, "", "%s", refused.Message)
	}
	if files := d.lock.Unheld(s.server, server); len(files) > 0 {
		s.find(tipstaff.FindingWarning, "files_unlocked", "",
			"%s holds no digest of %s, which the command of server %q names: a change of it would not be noticed; `tipstaff tools pin %s` locks it",
			tool.LockName, strings.Join(files, ", "), s.server, s.server)
	}
	if slices.Contains(tool.Unpinned(d.manifest), s.server) {
		s.find(tipstaff.FindingWarning, "package_unpinned", "",
			"the program of server %q fetches what it runs: name the package and package_digest, so that it cannot become another", s.server)
	}
	config, _ := d.manifest.Server(s.server)
	for _, name := range slices.Sorted(maps.Keys(config.Tools)) {
		info := tool.Info(d.manifest, d.tools, s.server, name)
		switch {
		case info.Lock == tipstaff.ToolUnlocked:
			s.find(tipstaff.FindingError, tool.CodeUnlocked, name, "%s", info.Trouble)
		case info.Lock == tipstaff.ToolUnusable:
			s.find(tipstaff.FindingError, tool.CodeUnknown, name, "%s", info.Trouble)
		case !info.Allowed:
			s.find(tipstaff.FindingWarning, tool.CodeEffectDenied, name, "%s is %s: %s", info.Name(), info.Class, info.Trouble)
		}
	}
	if s.listing != nil {
		d.compare(s)
	}
}

// compare finds the tools whose definitions are not the ones that were accepted.
func (d *catalog) compare(s *surveyed) {
	moved := map[string][]tipstaff.PinChange{}
	unlocked := d.lock.Servers[s.server].Files == nil // said already
	for _, c := range s.listing.Changes(d.manifest, d.lock) {
		if c.Kind == tipstaff.PinChanged && !(unlocked && strings.HasPrefix(c.Member, tool.MemberFile)) {
			moved[c.Tool] = append(moved[c.Tool], c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(moved)) {
		f := tipstaff.ToolFinding{Level: tipstaff.FindingError, Code: tool.CodeDefinitionChanged, Server: s.server, Tool: name, Changes: moved[name],
			Message: fmt.Sprintf("the definition of %s/%s is not the one that was accepted", s.server, name)}
		if name == "" {
			f.Message = fmt.Sprintf("server %q is not the one that was accepted", s.server)
		}
		s.findings = append(s.findings, f)
	}
}

func (d *catalog) summary(s *surveyed) tipstaff.ToolServer {
	config, _ := d.manifest.Server(s.server)
	sum := tipstaff.ToolServer{Server: s.server, Version: d.lock.Servers[s.server].Version, Tools: len(config.Tools)}
	switch {
	case s.server == builtin.Name:
		sum.Version = builtin.Version
	case s.listing != nil:
		sum.Version = s.listing.Version
	}
	wrong := map[string]bool{}
	for _, f := range s.findings {
		if f.Level == tipstaff.FindingNote || f.Level == tipstaff.FindingWarning && f.Tool == "" {
			continue
		}
		if f.Tool == "" {
			return sum // nothing of the server can be called
		}
		wrong[f.Tool] = true
	}
	for name := range config.Tools {
		if !wrong[name] {
			sum.Usable++
		}
	}
	return sum
}
