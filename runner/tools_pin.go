package runner

import (
	"cmp"
	"context"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/tool/builtin"
)

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
