package runner

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/tool/builtin"
)

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
	if refused := d.lock.Ready(s.server, server); refused != nil && !s.told(refused.Code) {
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

// told reports whether a finding of that code is there: the same fault, met when
// the server was started.
func (s *surveyed) told(code string) bool {
	for _, f := range s.findings {
		if f.Code == code && f.Tool == "" {
			return true
		}
	}
	return false
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
