package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/workspace"
)

// Listing is what a server says of itself now, beside what the manifest declares
// of it.
type Listing struct {
	Server  string
	Version string
	Package string            // digest of what was started; "": none was asked for
	Code    LockedCode        // of the workspace, that it runs or may load; the zero value: it is not started here
	Tools   []*Definition     // declared, listed and usable, by name
	Missing []string          // declared, not listed
	Extra   []string          // listed, not declared
	Broken  map[string]string // declared and listed, but not usable, and why

	extra map[string]json.RawMessage
}

// Undeclared is what is known of a tool that is listed and not declared: its class is the
// one that its hints state.
func (x *Listing) Undeclared(name string) tipstaff.ToolInfo {
	i := tipstaff.ToolInfo{Server: x.Server, Tool: name, Lock: tipstaff.ToolUndeclared}
	d, err := define(x.Server, x.Version, x.extra[name], workspace.Tool{})
	if err == nil {
		i.Class, i.ClassFrom = string(d.Class), d.classFrom("")
		i.Version, i.Digest, i.Title, i.Description = d.Version, d.Digest, d.title(), d.Description
		err = d.usable()
	}
	if err != nil {
		i.Trouble = err.Error()
	}
	return i
}

// List asks a server for its tools. A server that lists one name twice is an
// error, like one that does not answer.
func (m *Manager) List(ctx context.Context, server string) (*Listing, error) {
	c, err := m.catalog(ctx, server)
	if err != nil {
		return nil, err
	}
	if c.fault != "" {
		return nil, errors.New(c.fault)
	}
	digest, err := packageOf(m.links[server].server)
	if err != nil {
		return nil, fmt.Errorf("its package cannot be digested: %w", err)
	}
	x := &Listing{Server: server, Version: c.version, Package: digest, Extra: sortedKeys(c.extra), extra: c.extra, Broken: maps.Clone(c.broken)}
	if s, ok := m.links[server].server.(*stdioServer); ok {
		files, err := s.code.digests(s.command(), true)
		if err != nil {
			return nil, fmt.Errorf("its code cannot be digested: %w", err)
		}
		x.Code = LockedCode{files, true}
	}
	config, _ := m.manifest.Server(server)
	for _, name := range sortedKeys(config.Tools) {
		d, listed := c.tools[name]
		switch {
		case !listed && x.Broken[name] == "":
			x.Missing = append(x.Missing, name)
		case !listed:
		case m.lock.accepts(d): // it was usable then
			x.Tools = append(x.Tools, d)
		case d.usable() != nil:
			x.Broken[name] = d.usable().Error()
		default:
			x.Tools = append(x.Tools, d)
		}
	}
	return x, nil
}

// Locked is the listing as a lock holds it: of the tools, those that are declared
// and can be used.
func (x *Listing) Locked() LockedServer {
	s := LockedServer{Version: x.Version, PackageDigest: x.Package, LockedCode: x.Code, Tools: map[string]LockedTool{}}
	for _, d := range x.Tools {
		s.Tools[d.Tool] = LockedTool{d.Digest, d.Raw}
	}
	return s
}

// Changes are the differences between what the lock holds of the server and the
// listing: those of the server, then tool by tool, member by member.
func (x *Listing) Changes(m *workspace.Manifest, l *Lock) []tipstaff.PinChange {
	var held LockedServer
	if l != nil {
		held = l.Servers[x.Server]
	}
	changes := x.serverChanges(held)
	live, all := map[string]*Definition{}, x.Locked().Tools
	maps.Copy(all, held.Tools)
	for _, d := range x.Tools {
		live[d.Tool] = d
	}
	for _, name := range sortedKeys(all) {
		was, wasHeld := held.Tools[name]
		now, isListed := live[name]
		switch {
		case !wasHeld:
			changes = append(changes, tipstaff.PinChange{Server: x.Server, Tool: name, Kind: tipstaff.PinAdded, Now: now.Raw})
		case !isListed:
			changes = append(changes, tipstaff.PinChange{Server: x.Server, Tool: name, Kind: tipstaff.PinRemoved, Was: was.Definition})
		case was.Digest != now.Digest:
			changes = append(changes, toolChanges(m, x.Server, held.Version, was, now)...)
		}
	}
	return changes
}

// serverChanges are those of version, package and files. A server that is new has none:
// its tools say enough.
func (x *Listing) serverChanges(held LockedServer) []tipstaff.PinChange {
	if len(held.Tools) == 0 {
		return nil
	}
	code := x.Code
	code.Beside = code.Beside && len(x.Tools) > 0 || held.Beside // without tools it is taken out
	changes := differ(nil, x.Server, memberPackage, held.PackageDigest, x.Package)
	changes = append(changes, held.changes(x.Server, code)...)
	return differ(changes, x.Server, memberVersion, held.Version, x.Version)
}

// changes are the files that are others in code as it is now, of what has this label.
func (c LockedCode) changes(label string, now LockedCode) (changes []tipstaff.PinChange) {
	for _, path := range sortedKeys(now.Files) {
		changes = differ(changes, label, MemberFile+path, c.Files[path], now.Files[path])
	}
	for _, path := range sortedKeys(c.Files) {
		if now.Files[path] == "" {
			changes = differ(changes, label, MemberFile+path, c.Files[path], "")
		}
	}
	if changes == nil { // from now on, or no longer, a new file is told of
		changes = differ(changes, label, MemberBeside, c.Beside, now.Beside)
	}
	return changes
}

// differ adds a member that is another, if it is.
func differ[T comparable](changes []tipstaff.PinChange, label, member string, was, now T) []tipstaff.PinChange {
	if was == now {
		return changes
	}
	return append(changes, tipstaff.PinChange{Server: label, Kind: tipstaff.PinChanged, Member: member, Was: flow.JSON(was), Now: flow.JSON(now)})
}

// toolChanges are the members that moved and, before them, the effect class if it
// moved with them: that is what decides how a call is treated.
func toolChanges(m *workspace.Manifest, server, version string, was LockedTool, now *Definition) []tipstaff.PinChange {
	changes := members(server, now.Tool, was.Definition, now.Raw)
	config, _ := m.Tool(server, now.Tool)
	if before, err := define(server, version, was.Definition, config); err == nil && before.Class != now.Class {
		c := tipstaff.PinChange{Server: server, Tool: now.Tool, Kind: tipstaff.PinChanged, Member: memberClass, Was: flow.JSON(before.Class), Now: flow.JSON(now.Class)}
		changes = slices.Insert(changes, 0, c)
	}
	return changes
}

// Overview is every tool that the manifest declares, by server and name, as r
// has it: a registry made from the lock.
func Overview(m *workspace.Manifest, r *Registry) []tipstaff.ToolInfo {
	list := []tipstaff.ToolInfo{}
	if m == nil {
		return list
	}
	for _, server := range sortedKeys(m.Servers) {
		for _, tool := range sortedKeys(m.Servers[server].Tools) {
			list = append(list, Info(m, r, server, tool))
		}
	}
	return list
}

// Info is one declared tool.
func Info(m *workspace.Manifest, r *Registry, server, tool string) tipstaff.ToolInfo {
	config, _ := m.Tool(server, tool)
	i := tipstaff.ToolInfo{
		Server: server, Tool: tool, Lock: tipstaff.ToolUnlocked,
		Class: string(config.Effect), Timeout: config.Timeout.String(), MaxResult: config.MaxResult,
	}
	if server == builtin.Name && tool == builtin.WriteFile {
		s, _ := m.Server(server)
		if i.Writable = s.Writable; i.Writable == nil {
			i.Writable = s.Roots
		}
	}
	if config.Effect != "" {
		i.ClassFrom, i.Allowed = "manifest", m.Allows(config.Effect)
	}
	d, refused := r.find(tipstaff.ToolURI{Server: server, Tool: tool})
	if refused != nil {
		if refused.Code != CodeUnlocked {
			i.Lock = tipstaff.ToolUnusable
		}
		i.Trouble = refused.Message
		return i
	}
	i.Lock = tipstaff.ToolLocked
	if server == builtin.Name {
		i.Lock = tipstaff.ToolBuiltin
	}
	i.URI, i.Version, i.Digest = d.URI().String(), d.Version, d.Digest
	i.Class, i.ClassFrom, i.Allowed = string(d.Class), d.classFrom(config.Effect), m.Allows(d.Class)
	i.Title, i.Description = d.title(), d.Description
	if hold := r.servers[server].hold; hold != nil {
		i.Trouble = hold.Message
	} else if !i.Allowed {
		i.Trouble = "allowed_effects of the manifest does not list " + i.Class
	}
	return i
}

// URI is the definition's pinned name: by the version that the server reports, or
// by its digest where that is no full version.
func (d *Definition) URI() tipstaff.ToolURI {
	u := tipstaff.ToolURI{Server: d.Server, Tool: d.Tool, Pin: d.Version}
	if !tipstaff.IsVersion(d.Version) {
		u.Pin = d.Digest
	}
	return u
}

// classFrom is who states the effect class.
func (d *Definition) classFrom(declared flow.Class) string {
	switch hinted := d.Hints.class(); {
	case declared == "" && hinted == "":
		return "default"
	case declared == hinted:
		return "both"
	case hinted == "" || declared == d.Class:
		return "manifest"
	}
	return "hints"
}

// title is the tool's name for people.
func (d *Definition) title() string {
	var w struct {
		Title       string `json:"title"`
		Annotations struct {
			Title string `json:"title"`
		} `json:"annotations"`
	}
	if json.Unmarshal(d.Raw, &w) != nil {
		return ""
	}
	return cmp.Or(w.Title, w.Annotations.Title)
}

// Members of a PinChange that are not in a definition.
const (
	memberVersion = "version"
	memberPackage = "package_digest"
	MemberFile    = "file "  // and its path
	MemberBeside  = "beside" // the lock is older, and would hold the same files
	memberClass   = "class"
)

// members are the members in which two definitions, which are canonical JSON,
// differ.
func members(server, tool string, was, now json.RawMessage) (list []tipstaff.PinChange) {
	for _, d := range flow.Differences(was, now) {
		list = append(list, tipstaff.PinChange{Server: server, Tool: tool, Kind: tipstaff.PinChanged, Member: d.Pointer, Was: d.Was, Now: d.Now})
	}
	return list
}
