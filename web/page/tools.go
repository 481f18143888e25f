package page

import (
	"net/url"
	"slices"

	"github.com/tipstaff/tipstaff"
)

// toolPages show the tools of the workspace. They never write its lock.
var toolPages = pages{
	"GET /ui/tools":                 (*view).tools,
	"GET /ui/tools/{server}/{tool}": (*view).tool,
	"POST /ui/tools/check":          (*view).checkTools,
}

const (
	toolsAsked = 200  // of which the policy is asked
	usesMost   = 1000 // remembered steps in which uses are counted
)

// toolsPage is what manifest and lock say and, once it was asked for, what the servers do.
type toolsPage struct {
	Servers  []toolServer
	Report   *tipstaff.ToolReport
	Findings []toolFinding
	Pin      []string // servers that pinning would mend
	MayCheck bool
	Events   int // remembered steps in which uses were counted
}

// toolServer is one server with its tools.
type toolServer struct {
	Name, Version string
	Tools         []toolRow
	Usable        int
}

// toolRow is a declared tool.
type toolRow struct {
	tipstaff.ToolInfo
	Static string // what the policy says whatever the arguments are: allow, ask, deny, depends
	Uses   int
}

// At is its address.
func (r toolRow) At() string { return toolAddress(r.Server, r.Tool) }

func toolAddress(server, tool string) string {
	return "/ui/tools/" + url.PathEscape(server) + "/" + url.PathEscape(tool)
}

// toolFinding is something that a check brought up, with what has changed as differences.
type toolFinding struct {
	tipstaff.ToolFinding
	Patch *patch
}

// tools lists what is declared. It reads manifest and lock alone.
func (v *view) tools() error {
	page, err := v.declared()
	if err != nil {
		return err
	}
	return v.show("tools", "Tools", page)
}

func (v *view) declared() (page toolsPage, err error) {
	page.MayCheck = v.signed.May(tipstaff.ScopeRun)
	list, err := v.s.o.Tools.List(v.ctx())
	if err != nil {
		return page, err
	}
	events, err := v.remembered(tipstaff.MemoryQuery{Type: "event", Limit: usesMost})
	if err != nil {
		return page, err
	}
	page.Events = len(events)
	uses := map[string]int{}
	for _, e := range events {
		uses[e.Tool]++
	}
	for i, t := range list {
		if n := len(page.Servers); n == 0 || page.Servers[n-1].Name != t.Server {
			page.Servers = append(page.Servers, toolServer{Name: t.Server})
		}
		row := toolRow{ToolInfo: t, Uses: uses[t.URI]}
		if i < toolsAsked {
			e, err := v.s.o.Tools.Explain(v.ctx(), t.Name(), nil)
			if err != nil {
				return page, err
			}
			row.Static = e.Static
		}
		s := &page.Servers[len(page.Servers)-1]
		if s.Tools = append(s.Tools, row); t.Trouble == "" {
			s.Usable++
		}
		if t.Version != "" {
			s.Version = t.Version
		}
	}
	return page, nil
}

// checkTools asks the servers, as `tools verify` does, and shows what they say.
func (v *view) checkTools() error {
	if err := v.needs(tipstaff.ScopeRun); err != nil {
		return err
	}
	done, err := v.s.proving.begin(v.signed)
	if err != nil {
		return err
	}
	defer done()
	page, err := v.declared()
	if err != nil {
		return err
	}
	report, err := v.s.o.Tools.Verify(v.ctx(), false)
	if err != nil {
		return err
	}
	page.Report = &report
	for _, f := range report.Findings {
		shown := toolFinding{ToolFinding: f}
		if len(f.Changes) > 0 {
			shown.Patch = driftOf(f.Changes)
		}
		page.Findings = append(page.Findings, shown)
		if (tipstaff.PinMends(f.Code) || f.Code == "package_changed") && !slices.Contains(page.Pin, f.Server) { // people may accept a new package
			page.Pin = append(page.Pin, f.Server)
		}
	}
	return v.show("tools", "Tools", page)
}

// driftOf shows changes of a definition: one difference for each member.
func driftOf(changes []tipstaff.PinChange) *patch {
	p := &patch{}
	for _, c := range changes {
		name := tipstaff.Joined(" ", c.Tool, c.Member)
		if c.Kind != tipstaff.PinChanged {
			name = tipstaff.Joined(" ", name, c.Kind)
		}
		f := linesDiffer(name, cutBytes(pinText(c.Was), shownBytes), cutBytes(pinText(c.Now), shownBytes))
		p.Files, p.Added, p.Removed = append(p.Files, f), p.Added+f.Added, p.Removed+f.Removed
	}
	return p
}

func pinText(value []byte) string {
	if len(value) == 0 {
		return ""
	}
	return valueText(value)
}

// toolPage is one tool.
type toolPage struct {
	tipstaff.ToolInfo
	Missing     string // why its definition is not known; "": it is
	Explanation tipstaff.Explanation
	Schema      string
	Uses        []tipstaff.MemoryItem
}

// tool shows what is known of one tool, as it was locked.
func (v *view) tool() error {
	name := v.r.PathValue("server") + "/" + v.r.PathValue("tool")
	info, err := v.s.o.Tools.Describe(v.ctx(), name, false)
	page := toolPage{ToolInfo: info}
	if tipstaff.CodeOf(err) == tipstaff.Refused && info.Tool != "" {
		page.Missing, err = err.Error(), nil
	}
	if err != nil {
		return err
	}
	if len(info.Definition) > 0 {
		page.Schema = passage(cutBytes(valueText(info.Definition), shownBytes))
	}
	if page.Explanation, err = v.s.o.Tools.Explain(v.ctx(), name, nil); err != nil {
		return err
	}
	events, err := v.remembered(tipstaff.MemoryQuery{Type: "event", Limit: usesMost})
	if err != nil {
		return err
	}
	for _, e := range events {
		if e.Tool == info.URI && info.URI != "" && len(page.Uses) < 20 {
			page.Uses = append(page.Uses, e)
		}
	}
	return v.show("tool", name, page)
}
