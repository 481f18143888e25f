package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
)

// Rules of the channel itself.
const (
	ruleChannel   = "builtin/channel"   // its own tools are the worker's; approve is not
	ruleReported  = "builtin/reported"  // nothing is done after a report or a question
	ruleArguments = "builtin/arguments" // arguments that cannot be shown exactly are not approved
)

// approve answers a CLI that asks leave for a call. It answers at once: what a person must
// decide is kept as pending, and the CLI is told to end.
func (c *mcpChannel) approve(ctx context.Context, args json.RawMessage) (string, error) {
	var a map[string]json.RawMessage
	if err := json.Unmarshal(args, &a); err != nil {
		return "", fmt.Errorf("the arguments do not fit: %w", err)
	}
	var name, callID string
	input := a["input"]
	if json.Unmarshal(a["tool_name"], &name) != nil || name == "" || len(input) == 0 || input[0] != '{' {
		return "", fmt.Errorf("approve needs tool_name, a text, and input, an object")
	}
	if id, ok := a["tool_use_id"]; ok && json.Unmarshal(id, &callID) != nil {
		return "", fmt.Errorf("tool_use_id is not a text")
	}
	r := Request{Tool: toolName(c.options.Type, name), CallID: callID, Args: input, Class: nativeClass(c.options.Type, name), Claim: claim(a)}
	ruling := c.rule(ctx, &r)
	return c.answer(r, ruling), nil
}

// rule is the ruling on a request, which it completes.
func (c *mcpChannel) rule(ctx context.Context, r *Request) Ruling {
	canonical, err := canon.Exact(r.Args)
	if err != nil {
		return Ruling{Effect: Deny, Rules: []string{ruleArguments}, Why: err.Error()}
	}
	r.ArgsDigest = flow.Digest(canonical)
	if own, ok := strings.CutPrefix(r.Tool, ServerName+"/"); ok {
		if slices.Contains(taskTools(), own) {
			return Ruling{Effect: Allow, Rules: []string{ruleChannel}}
		}
		return Ruling{Effect: Deny, Rules: []string{ruleChannel}, Why: own + " is not a tool for the model"}
	}
	if !plainName(strings.TrimPrefix(r.Tool, nativeServer(c.options.Type)+"/")) { // no pattern of a policy could mean it
		return Ruling{Effect: Deny, Rules: []string{ruleArguments}, Why: "the tool's name has characters that no tool has"}
	}
	if s := c.report().Status; s != "" {
		return Ruling{Effect: Deny, Rules: []string{ruleReported}, Why: fmt.Sprintf("the task is %s by your own report: end your turn now", s)}
	}
	ruling := c.policy.Decide(ctx, *r)
	r.Class, r.Facts, r.Guards = cmp.Or(ruling.Class, r.Class), ruling.Facts, ruling.Guards
	r.Rule = strings.Join(ruling.Rules, ", ")
	return ruling
}

// answer keeps what was ruled and is the answer in the CLI's form.
func (c *mcpChannel) answer(r Request, ruling Ruling) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch ruling.Effect {
	case Allow:
		if r.CallID != "" { // else the stream cannot tell which call it was
			c.allowed[r.CallID] = ruling
		}
		// The input goes back byte by byte: what was approved is what runs.
		return `{"behavior":"allow","updatedInput":` + string(r.Args) + `}`
	case Ask:
		same := func(p Request) bool { return p.CallID == r.CallID && p.Tool == r.Tool && p.ArgsDigest == r.ArgsDigest }
		if !slices.ContainsFunc(c.waiting, same) {
			r.Args, r.Claim = c.clean(r.Args), string(c.clean([]byte(r.Claim)))
			c.waiting = append(c.waiting, r)
		}
		c.speak()
		return string(flow.JSON(map[string]any{"behavior": "deny", "interrupt": true,
			"message": fmt.Sprintf("%s: a person must allow this call; you will be resumed when it was decided", r.Rule)}))
	default:
		why := cmp.Or(ruling.Why, "it is not allowed")
		message := string(c.clean([]byte(strings.Join(ruling.Rules, ", ") + ": " + why)))
		c.denied = append(c.denied, Denial{Tool: r.Tool, CallID: r.CallID, ArgsDigest: r.ArgsDigest, Reason: message})
		return string(flow.JSON(map[string]any{"behavior": "deny", "message": message}))
	}
}

// mostClaim bounds what is kept of a CLI's own words, in bytes.
const mostClaim = 4 << 10

// claim is what the CLI says of a request besides the call itself: further members of what
// it sends, or the description that it lets the model give.
func claim(a map[string]json.RawMessage) string {
	rest := map[string]json.RawMessage{}
	for name, value := range a {
		if name != "tool_name" && name != "input" && name != "tool_use_id" {
			rest[name] = value
		}
	}
	text := ""
	if len(rest) > 0 {
		text = string(flow.JSON(rest))
	} else {
		var input map[string]json.RawMessage
		_ = json.Unmarshal(a["input"], &input)          // an object, as was seen
		_ = json.Unmarshal(input["description"], &text) // or there is none
	}
	if len(text) > mostClaim {
		return strings.ToValidUTF8(text[:mostClaim], "") + "…"
	}
	return text
}

// Subject is what a person is asked about a request of such a worker.
func (r Request) Subject(worker, typ, cliVersion, dir string) json.RawMessage {
	return tipstaff.WorkerRequest{Worker: worker, Type: typ, CLIVersion: cliVersion, Tool: r.Tool, Class: r.Class, Rule: r.Rule, Dir: dir,
		Args: r.Args, ArgsDigest: r.ArgsDigest, Facts: r.Facts, Claim: r.Claim}.Subject()
}
