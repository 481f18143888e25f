package runner

import (
	"cmp"
	"context"
	"encoding/json"
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
	"github.com/tipstaff/tipstaff/workspace"
)

// Tools looks after the tools of the runner's workspace. Of the store it uses
// nothing.
func (r *Runner) Tools() tipstaff.Tools { return toolbox{r} }

type toolbox struct{ *Runner }

// catalog is what a look at the tools of a workspace begins with: its manifest, its
// lock, and what both say together.
type catalog struct {
	manifest *workspace.Manifest
	lock     *tool.Lock
	tools    *tool.Registry
	code     *tool.Code

	protection *workspace.Protection
}

func (t toolbox) open() (*catalog, error) {
	m, err := t.manifest()
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "there is no tipstaff.yaml in %s", t.Workspace).
			WithHint("it declares the servers and tools that plans may use").WithCommand("`tipstaff init` writes one to begin with")
	}
	return t.catalog(m)
}

// openLive is open for a look that starts servers.
func (t toolbox) openLive() (*catalog, error) {
	d, err := t.open()
	if err != nil {
		return nil, err
	}
	if err := t.trusts(d.manifest, d.lock); err != nil {
		return nil, err
	}
	return d, nil
}

func (r *Runner) catalog(m *workspace.Manifest) (*catalog, error) {
	l, err := r.lock()
	if err != nil {
		return nil, err
	}
	return &catalog{m, l, tool.NewLockedRegistry(m, l), tool.NewCode(m, r.Workspace, r.State), r.protection(m)}, nil
}

func (t toolbox) List(context.Context) ([]tipstaff.ToolInfo, error) {
	d, err := t.open()
	if err != nil {
		return nil, err
	}
	return tool.Overview(d.manifest, d.tools), nil
}

func (t toolbox) Live(ctx context.Context, servers []string) ([]tipstaff.ToolInfo, []tipstaff.ToolFinding, error) {
	d, err := t.openLive()
	if err != nil {
		return nil, nil, err
	}
	if len(servers) == 0 {
		servers = slices.Sorted(maps.Keys(d.manifest.Servers))
	}
	for _, name := range servers {
		if err := d.declares(name); err != nil {
			return nil, nil, err
		}
	}
	tools, findings := []tipstaff.ToolInfo{}, []tipstaff.ToolFinding{}
	for _, s := range t.survey(ctx, d, servers, (*tool.Manager).Compare) {
		for _, f := range s.findings {
			if f.Level == tipstaff.FindingError {
				findings = append(findings, f)
			}
		}
		if s.listing == nil {
			continue
		}
		for _, listed := range s.listing.Tools {
			tools = append(tools, tool.Info(d.manifest, d.tools, s.server, listed.Tool))
		}
		for _, name := range s.listing.Extra {
			tools = append(tools, s.listing.Undeclared(name))
		}
	}
	return tools, findings, ctx.Err()
}

// declares refuses a server that the manifest does not declare.
func (d *catalog) declares(server string) error {
	if _, ok := d.manifest.Server(server); !ok {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "%s", d.manifest.Undeclared(server, "")).
			WithHint("declare it under servers in tipstaff.yaml, with its command or its url; its tools can be added later")
	}
	return nil
}

func (t toolbox) Describe(ctx context.Context, name string, live bool) (tipstaff.ToolInfo, error) {
	d, err := t.open()
	if err != nil {
		return tipstaff.ToolInfo{}, err
	}
	u, err := d.find(name)
	if err != nil {
		return tipstaff.ToolInfo{}, err
	}
	tools := d.tools
	if live {
		if err := t.trusts(d.manifest, d.lock); err != nil {
			return tipstaff.ToolInfo{}, err
		}
		if tools, err = t.live(ctx, d.manifest, u.Server); err != nil {
			return tipstaff.ToolInfo{}, err
		}
	}
	info := tool.Info(d.manifest, tools, u.Server, u.Tool)
	if live && info.Lock == tipstaff.ToolLocked {
		switch accepted, ok := d.lock.Tool(info.Server, info.Tool); {
		case !ok:
			info.Lock, info.Trouble = tipstaff.ToolUnlocked, cmp.Or(info.Trouble, "nobody has accepted this definition yet")
		case accepted.Digest != info.Digest:
			info.Lock = tipstaff.ToolUnlocked
			info.Trouble = cmp.Or(info.Trouble, "this is not the definition that was accepted: `tipstaff tools pin "+info.Server+"` shows the difference")
		}
	}
	if info.Lock == tipstaff.ToolUnlocked && info.Digest == "" {
		return info, tipstaff.Errorf(tipstaff.Refused, "%s is not in %s, so nothing is known of it", info.Name(), tool.LockName).
			WithCommand("`tipstaff tools describe %s --live` asks the server; `tipstaff tools pin %s` locks its tools", info.Name(), u.Server)
	}
	if definition, err := tools.Lookup(cmp.Or(info.URI, name)); err == nil {
		info.Definition = definition.Raw
	}
	if u.Pin != "" && u.Pin != info.Version && u.Pin != info.Digest {
		info.Trouble = fmt.Sprintf("the pin %s does not fit: it is version %q with digest %s", u.Pin, info.Version, info.Digest)
	}
	return info, nil
}

// live is what a server lists now.
func (t toolbox) live(ctx context.Context, m *workspace.Manifest, server string) (*tool.Registry, error) {
	alone := *m
	alone.Servers = map[string]workspace.Server{server: m.Servers[server]}
	s, close := t.servers(&alone)
	defer close()
	tools, err := tool.NewRegistry(&alone, s)
	if err != nil {
		return nil, &tipstaff.Error{Code: tipstaff.Refused, Message: err.Error(), Err: err}
	}
	return tools, ctx.Err()
}

// servers makes the servers of a manifest for a look at them. They carry markers
// of their own: close ends whatever of them is left.
func (t toolbox) servers(m *workspace.Manifest) (servers map[string]tool.Server, close func()) {
	launch := tipstaff.NewID(t.Now()).String()
	return t.Servers(m, t.Workspace, t.Markers(launch, launch)), func() {
		if len(m.Servers) > 0 {
			_, _ = t.Sweep(context.Background(), map[string]string{launch: launch}) // what is left then hangs in the kernel
		}
	}
}

// find is the declared tool of that name: a URI, or server/tool, whose pin is
// then empty.
func (d *catalog) find(name string) (tipstaff.ToolURI, error) {
	u, err := tipstaff.ParseToolURI(name)
	if err != nil {
		server, rest, ok := strings.Cut(strings.TrimPrefix(name, "mcp://"), "/")
		if !ok || strings.Contains(rest, "/") || strings.Contains(rest, "@") {
			return u, tipstaff.Errorf(tipstaff.InvalidArgument, "%v", err).WithCommand("write SERVER/TOOL, or the URI that `tipstaff tools list` shows")
		}
		u = tipstaff.ToolURI{Server: server, Tool: rest}
	}
	if _, ok := d.manifest.Tool(u.Server, u.Tool); !ok {
		return u, tipstaff.Errorf(tipstaff.InvalidArgument, "%s", d.manifest.Undeclared(u.Server, u.Tool)).
			WithCommand("`tipstaff tools list` shows what is declared")
	}
	return u, nil
}

// Explain asks the gate as a run that starts now would freeze it. That the tool
// is declared by the program is taken for granted: there is none.
func (t toolbox) Explain(_ context.Context, name string, args json.RawMessage) (tipstaff.Explanation, error) {
	d, err := t.open()
	if err != nil {
		return tipstaff.Explanation{}, err
	}
	u, err := d.find(name)
	if err != nil {
		return tipstaff.Explanation{}, err
	}
	servers := t.Servers(d.manifest, t.Workspace, nil)
	tools := d.tools.Withhold(u.Server, d.lock.Ready(u.Server, servers[u.Server]))
	if u.Pin == "" { // then that of the lock or, where it gives none, any: the call is refused for that
		u.Pin = "0.0.0"
		if pinned, err := tipstaff.ParseToolURI(tool.Info(d.manifest, d.tools, u.Server, u.Tool).URI); err == nil {
			u = pinned
		}
	}
	gate := tool.NewGate([]string{u.String()}, d.manifest, tools)
	return gate.Explain(u.String(), args), nil
}

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

// maxExtra is how many tools that a server lists and the manifest does not declare are
// named one by one.
const maxExtra = 10

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
		s.find(tipstaff.FindingError, tool.CodeUnknown, name, "the server does not list %s/%s, which the manifest declares: it has dropped the tool, or never had it; "+
			"remove the declaration, or have the server list it, then `tipstaff tools pin %s`", s.server, name, s.server)
	}
	for name, why := range listing.Broken {
		s.find(tipstaff.FindingError, tool.CodeUnknown, name, "%s/%s cannot be used: %s", s.server, name, why)
	}
	if n := len(listing.Extra); n > maxExtra {
		s.find(tipstaff.FindingNote, "undeclared_tool", "", "server %q lists %d tools that the manifest does not declare: `tipstaff tools list --live %s` shows them", s.server, n, s.server)
	} else {
		for _, name := range listing.Extra {
			s.find(tipstaff.FindingNote, "undeclared_tool", name, "the server lists %s/%s, which the manifest does not declare", s.server, name)
		}
	}
	slices.SortStableFunc(s.findings, func(a, b tipstaff.ToolFinding) int { return cmp.Compare(a.Tool, b.Tool) })
}

// Compare lists the servers, all at once, and compares.
func (t toolbox) Compare(ctx context.Context, named []string) (tipstaff.PinReport, error) {
	d, err := t.openLive()
	if err != nil {
		return tipstaff.PinReport{}, err
	}
	names, others, err := d.pinned(named)
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
		config, _ := d.manifest.Server(s.server)
		report.Findings = append(report.Findings, t.shares(config.Starts(s.server))...)
		next = next.With(s.server, s.listing.Locked())
	}
	for _, c := range others {
		var changes []tipstaff.PinChange
		if next, changes, err = next.WithCode(d.code, c); err != nil {
			report.Findings = append(report.Findings, d.looked(c)...)
			continue
		}
		report.Changes = append(report.Changes, changes...)
		report.Findings = append(report.Findings, t.shares(c)...)
	}
	if len(named) == 0 {
		for _, name := range d.stale() {
			was := d.lock.Servers[name]
			gone := tool.Listing{Server: name, Version: was.Version, Package: was.PackageDigest, Code: was.LockedCode}
			report.Changes = append(report.Changes, gone.Changes(d.manifest, d.lock)...)
			next = next.With(name, tool.LockedServer{})
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
		return &tipstaff.Error{Code: tipstaff.Refused, Message: err.Error(), Command: "run the command again", Err: err}
	}
	return nil
}

// shares notes what is started in the workspace itself.
func (t toolbox) shares(c workspace.Command) []tipstaff.ToolFinding {
	if !c.SharesFolder(t.Workspace) {
		return nil
	}
	return []tipstaff.ToolFinding{{Level: tipstaff.FindingNote, Code: c.Kind + "_shares_folder", Server: c.Label(),
		Message: fmt.Sprintf("%s is started in the workspace itself, so that all code there counts as its own: no run writes it, and each change of it has to be accepted; keep the %s in a folder of its own", c.Called(), c.Kind)}}
}

// pinned are what a lock is for: servers, and workers and programs, those that are named, else
// all that the lock is to hold, and what it holds of those that are not declared any more.
func (d *catalog) pinned(named []string) (servers []string, others []workspace.Command, err error) {
	if len(named) == 0 {
		servers = slices.Sorted(maps.Keys(d.manifest.Servers))
		return slices.DeleteFunc(servers, func(name string) bool { return name == builtin.Name }), append(slices.DeleteFunc(d.others(), func(c workspace.Command) bool { return !d.lock.Holds(c) }), d.lock.Stale(d.manifest)...), nil
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(named))) {
		i := slices.IndexFunc(d.others(), func(c workspace.Command) bool { return c.Label() == name })
		switch {
		case i >= 0:
			others = append(others, d.others()[i])
			continue
		case name == builtin.Name:
			return nil, nil, tipstaff.Errorf(tipstaff.InvalidArgument, "%s is locked by the binary and cannot be pinned", builtin.Name).
				WithHint("what programs of exec run of the workspace is locked under %s/ and the entry of programs", workspace.KindProgram)
		}
		if err := d.declares(name); err != nil {
			return nil, nil, err
		}
		servers = append(servers, name)
	}
	return servers, others, nil
}

// others are the workers and programs that the manifest has started.
func (d *catalog) others() []workspace.Command {
	return slices.DeleteFunc(d.manifest.Commands(), func(c workspace.Command) bool { return c.Kind == workspace.KindServer })
}

// stale are the servers of the lock that are no longer declared.
func (d *catalog) stale() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(d.lock.Servers)) {
		if _, ok := d.manifest.Server(name); !ok {
			names = append(names, name)
		}
	}
	return names
}

// Verify looks at every declared server: first at what can be known without a
// connection, then, unless offline, at what it lists.
func (t toolbox) Verify(ctx context.Context, offline bool) (tipstaff.ToolReport, error) {
	d, err := t.open()
	if err != nil {
		return tipstaff.ToolReport{}, err
	}
	names, _, err := d.pinned(nil)
	if err != nil {
		return tipstaff.ToolReport{}, err
	}
	var listed []*surveyed
	if !offline {
		if err := t.trusts(d.manifest, d.lock); err != nil {
			return tipstaff.ToolReport{}, err
		}
		listed = t.survey(ctx, d, names, (*tool.Manager).Hold)
	}
	report := tipstaff.ToolReport{OK: true, Offline: offline, Servers: []tipstaff.ToolServer{}, Findings: []tipstaff.ToolFinding{}}
	for _, s := range d.checked(listed, t.Servers(d.manifest, t.Workspace, nil)) {
		report.Servers = append(report.Servers, d.summary(s))
		report.Findings = append(report.Findings, s.findings...)
	}
	for _, c := range d.others() {
		report.Findings = append(report.Findings, d.looked(c)...)
	}
	for _, c := range d.lock.Stale(d.manifest) {
		report.Findings = append(report.Findings, tipstaff.ToolFinding{Level: tipstaff.FindingNote, Code: "stale_lock", Server: c.Label(),
			Message: fmt.Sprintf("%s holds code of %s, which the manifest does not have started", tool.LockName, c.Called())})
	}
	for _, gone := range d.stale() {
		report.Findings = append(report.Findings, tipstaff.ToolFinding{Level: tipstaff.FindingNote, Code: "stale_lock", Server: gone,
			Message: fmt.Sprintf("%s holds tools of server %q, which the manifest does not declare", tool.LockName, gone)})
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
	config, _ := d.manifest.Server(s.server)
	s.findings = append(s.findings, d.unheld(config.Starts(s.server))...)
	if s.server == builtin.Name {
		for _, entry := range d.protection.Idle() {
			s.find(tipstaff.FindingWarning, CodeOpensNothing, "", "%s", opensNothing(entry))
		}
	}
	if slices.Contains(tool.Unpinned(d.manifest), s.server) {
		s.find(tipstaff.FindingWarning, "package_unpinned", "",
			"the program of server %q fetches what it runs: name the package and package_digest, so that it cannot become another", s.server)
	}
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

// looked is what the lock says of the code of a worker or a program.
func (d *catalog) looked(c workspace.Command) []tipstaff.ToolFinding {
	if refused := d.lock.Accepts(d.code, c); refused != nil {
		return []tipstaff.ToolFinding{{Level: tipstaff.FindingError, Code: refused.Code, Server: c.Label(), Message: refused.Message}}
	}
	return d.unheld(c)
}

// unheld warns of files of which the lock has no digest.
func (d *catalog) unheld(c workspace.Command) []tipstaff.ToolFinding {
	files, err := d.lock.Unheld(d.code, c)
	warn := tipstaff.ToolFinding{Level: tipstaff.FindingWarning, Code: "files_unlocked", Server: c.Label()}
	switch {
	case err != nil:
		warn.Message = fmt.Sprintf("%s holds no digests of what %s runs or may load, and a change would not be noticed, for they cannot be made: %v", tool.LockName, c.Called(), err)
	case len(files) > 0:
		warn.Message = fmt.Sprintf("%s holds no digest of %s, which %s runs or may load: a change would not be noticed; `tipstaff tools pin %s` locks it",
			tool.LockName, some(files), c.Called(), c.Label())
	default:
		return nil
	}
	return []tipstaff.ToolFinding{warn}
}

// CodeOpensNothing is the code of a warning: servers.builtin.writable names what it cannot open.
const CodeOpensNothing = "writable_opens_nothing"

func opensNothing(entry string) string {
	return "servers.builtin.writable opens nothing by " + entry
}

// some are the first few of many.
func some(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// compare finds the tools whose definitions are not the ones that were accepted.
func (d *catalog) compare(s *surveyed) {
	moved := map[string][]tipstaff.PinChange{}
	held := d.lock.Servers[s.server]
	unlocked := !held.Beside // said already
	for _, c := range s.listing.Changes(d.manifest, d.lock) {
		if c.Kind == tipstaff.PinChanged && !(unlocked && (strings.HasPrefix(c.Member, tool.MemberFile) || c.Member == tool.MemberBeside)) {
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
