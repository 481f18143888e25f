package tool

import (
	"cmp"
	"encoding/json"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/workspace"
)

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
