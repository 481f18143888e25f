package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/tool"
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
}

func (t toolbox) open() (*catalog, error) {
	m, err := t.manifest()
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "there is no tipstaff.yaml in %s", t.Workspace).
			WithHint("it declares the servers and tools that plans may use")
	}
	return t.catalog(m)
}

func (r *Runner) catalog(m *workspace.Manifest) (*catalog, error) {
	l, err := r.lock()
	if err != nil {
		return nil, err
	}
	return &catalog{m, l, tool.NewLockedRegistry(m, l)}, nil
}

func (t toolbox) List(context.Context) ([]tipstaff.ToolInfo, error) {
	d, err := t.open()
	if err != nil {
		return nil, err
	}
	return tool.Overview(d.manifest, d.tools), nil
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
			WithHint("`tipstaff tools describe %s --live` asks the server; `tipstaff tools pin %s` locks its tools", info.Name(), u.Server)
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
	var markers []string
	if t.Markers != nil {
		markers = t.Markers(launch, launch)
	}
	return t.Servers(m, t.Workspace, markers), func() {
		if t.Sweep != nil && len(m.Servers) > 0 {
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
			return u, tipstaff.Errorf(tipstaff.InvalidArgument, "%v", err).WithHint("write SERVER/TOOL, or the URI that `tipstaff tools list` shows")
		}
		u = tipstaff.ToolURI{Server: server, Tool: rest}
	}
	if _, ok := d.manifest.Tool(u.Server, u.Tool); !ok {
		return u, tipstaff.Errorf(tipstaff.InvalidArgument, "the manifest declares no tool %q of a server %q", u.Tool, u.Server).
			WithHint("`tipstaff tools list` shows what is declared")
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
