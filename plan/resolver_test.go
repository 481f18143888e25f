package plan

import (
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// workspace is the Resolver of these tests: tools whose name begins with once_
// or put_ have that class, others read.
type workspace struct{}

func (workspace) Tool(uri string) ToolInfo {
	info := ToolInfo{Class: flow.Read}
	switch name := toolOf(uri); {
	case strings.HasPrefix(name, "once_"):
		info.Class = flow.Once
	case strings.HasPrefix(name, "put_"):
		info.Class = flow.Idempotent
	case name == "slow":
		info.Timeout = 45 * time.Second
	case name == "quick":
		info.MaxTimeout = time.Minute
	case name == "gone":
		info.Trouble = Trouble{Code: "unknown_tool", Message: "no server has it"}
	}
	return info
}

func (workspace) Skill(uri string) SkillInfo {
	switch uri {
	case "skill://ghost@1.0.0":
		return SkillInfo{Trouble: Trouble{Code: "skill_unknown"}}
	case "skill://promise@1.0.0":
		return SkillInfo{Tools: []string{}, SubSkills: []string{"skill://takes@1.0.0"}, Outputs: []string{"notes", "title"}}
	case "skill://takes@1.0.0":
		return SkillInfo{Tools: []string{}, Inputs: map[string]bool{"file": true, "note": false}}
	}
	return SkillInfo{Tools: []string{"mcp://t/read@1.0.0", "mcp://t/list@1.0.0"}}
}

func (workspace) Agent(name string) AgentInfo {
	switch name {
	case "ghost":
		return AgentInfo{Trouble: Trouble{Code: codeAgentUnknown, Message: "there is no agent ghost"}}
	case "worker":
		return AgentInfo{Once: true}
	}
	return AgentInfo{}
}

func (workspace) Feature(name string) Trouble {
	if name == "anchor" {
		return Trouble{Code: document.CodeFieldInvalid}
	}
	return Trouble{}
}

func (workspace) Release(expression string) Trouble {
	if expression == "broken" {
		return Trouble{Code: "bad_expression", Message: "it is broken"}
	}
	return Trouble{}
}

func (workspace) Dispatch(skill, _ string) Trouble {
	switch skill {
	case "skill://off@1.0.0":
		return Trouble{Code: CodeSubDispatchDisabled}
	case "skill://loop@1.0.0":
		return Trouble{Code: "sub_dispatch_cycle"}
	}
	return Trouble{}
}

func (workspace) Bounds() flow.Use {
	return flow.Use{tipstaff.BoundToolCalls: 100, tipstaff.BoundCostUSD: 1e9, tipstaff.BoundWallTime: 3_600_000}
}

// toolOf is the name in mcp://server/name@pin.
func toolOf(uri string) string {
	_, name, _ := strings.Cut(strings.TrimPrefix(uri, "mcp://"), "/")
	name, _, _ = strings.Cut(name, "@")
	return name
}
