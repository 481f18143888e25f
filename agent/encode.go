package agent

import (
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
)

// What every step writes writes itself: to have it found out by reflection was a
// sixth of what a step takes. The result is what encoding/json makes of the types.

// AppendJSON writes the event's body.
func (e *StepStarted) AppendJSON(b []byte) []byte {
	return flow.AppendObject(b).Int("step", int64(e.Step)).Str("model", e.Model).Int("messages", int64(e.Messages)).Int("tools", int64(e.Tools)).
		Int("est_input_tokens", e.EstInputTokens).Value("cut", e.Cut).Close()
}

// AppendJSON writes the cut.
func (c Cut) AppendJSON(b []byte) []byte {
	return flow.AppendObject(b).Int("elided", int64(c.Elided)).Int("dropped", int64(c.Dropped)).Close()
}

// AppendJSON writes the event's body.
func (e *MessageDone) AppendJSON(b []byte) []byte {
	return flow.AppendObject(b).Int("step", int64(e.Step)).Str("text", e.Text).Str("reason", string(e.Reason)).Int("calls", int64(e.Calls)).
		Value("usage", e.Usage).Int("attempts", int64(e.Attempts)).Str("model", e.Model).Close()
}

// AppendJSON writes the event's body.
func (e *ToolCallRequest) AppendJSON(b []byte) []byte {
	return flow.AppendObject(b).Int("step", int64(e.Step)).Int("index", int64(e.Index)).Str("id", e.ID).Str("name", e.Name).
		Str("server", e.Server).Str("tool", e.Tool).Str("uri", e.URI).JSON("arguments", e.Arguments).Str("args_digest", e.ArgsDigest).
		Str("effect", string(e.Effect)).Bool("destructive", e.Destructive).Bool("open_world", e.OpenWorld).JSON("facts", e.Facts).Close()
}

// AppendJSON writes the event's body.
func (e *ApprovalDecided) AppendJSON(b []byte) []byte {
	return flow.AppendObject(b).Str("id", e.ID).Str("decision", e.Decision).Str("by", e.By).Str("rule", e.Rule).
		Str("policy_digest", e.PolicyDigest).Str("gate", e.Gate).Str("reason", e.Reason).Close()
}

// AppendJSON writes the event's body.
func (e *ToolCallResult) AppendJSON(b []byte) []byte {
	return flow.AppendObject(b).Str("id", e.ID).Bool("is_error", e.IsError).Str("class", e.Class).Str("content", e.Content).
		Int("bytes", e.Bytes).Str("ref", e.Ref).Int("duration_ms", e.DurationMS).Bool("untrusted", e.Untrusted).Close()
}

// AppendJSON writes what a model call used; null, if that is not known.
func (u *Usage) AppendJSON(b []byte) []byte {
	if u == nil {
		return append(b, "null"...)
	}
	return flow.AppendObject(b).Int("input_tokens", u.InputTokens).Int("output_tokens", u.OutputTokens).Int("cache_read_tokens", u.CacheReadTokens).
		Int("cache_write_tokens", u.CacheWriteTokens).Int("reasoning_tokens", u.ReasoningTokens).Int("total_tokens", u.TotalTokens).
		Value("cost_usd", u.CostUSD).Close()
}

// AppendJSON writes the amount; null, if it is not known.
func (u *USD) AppendJSON(b []byte) []byte {
	if u == nil {
		return append(b, "null"...)
	}
	return canon.AppendText(b, u.String())
}

// AppendJSON writes the value of a model call.
func (a *answer) AppendJSON(b []byte) []byte {
	o := flow.AppendObject(b).Str("text", a.Text)
	if len(a.Calls) > 0 {
		o = flow.AppendList(o.Key("calls"), a.Calls, func(b []byte, c Call) []byte {
			return flow.AppendObject(b).Str("id", c.ID).Str("name", c.Name).Str("arguments", c.Arguments).Close()
		})
	}
	o = o.Str("reason", string(a.Reason))
	if a.Usage != nil {
		o = o.Value("usage", a.Usage)
	}
	return o.Str("model", a.Model).OptJSON("opaque", a.Opaque).Close()
}

// AppendJSON writes the input of a model call.
func (in *modelInput) AppendJSON(b []byte) []byte {
	o := flow.AppendObject(b).Str("model", in.Model)
	if in.Temperature != nil {
		o = o.Raw("temperature", flow.JSON(*in.Temperature))
	}
	if in.TopP != nil {
		o = o.Raw("top_p", flow.JSON(*in.TopP))
	}
	return o.Int("max_output_tokens", int64(in.MaxOutputTokens)).OptStr("output_schema", in.OutputSchema).Str("system", in.System).Str("tools", in.Tools).Str("conversation", in.Conversation).Close()
}
