package pipeline

import "github.com/tipstaff/tipstaff/flow"

// What every stage of a run writes writes itself, as encoding/json would: to find it
// out by reflection took longer than to decide what runs next.

// AppendJSON writes the event's body.
func (e StageStarted) AppendJSON(b []byte) []byte {
	o := flow.AppendObject(b).Str("stage", e.Stage).Int("visit", e.Visit).Int("attempt", e.Attempt).Int("turn", e.Turn)
	if len(e.ReleasedBy) > 0 {
		o = o.Strs("released_by", e.ReleasedBy)
	}
	return o.Close()
}

// AppendJSON writes the event's body.
func (e StageFinished) AppendJSON(b []byte) []byte {
	o := flow.AppendObject(b).Str("stage", e.Stage).Int("visit", e.Visit).Str("outcome", e.Outcome).Int("attempts", e.Attempts).
		Int("duration_ms", e.DurationMs).Value("usage", e.Usage)
	return o.OptStr("output_key", e.OutputKey).OptJSON("output", e.Output).OptStr("code", e.Code).OptStr("error", e.Error).OptStr("next", e.Next).Close()
}

// AppendJSON writes what was used.
func (u Usage) AppendJSON(b []byte) []byte {
	o := flow.AppendObject(b).OptInt("llm_calls", u.LLMCalls).OptInt("tool_calls", u.ToolCalls).OptInt("agent_hops", u.Hops).
		OptInt("tokens_in", u.TokensIn).OptInt("tokens_out", u.TokensOut)
	if u.CostUSD != 0 {
		o = o.Str("cost_usd", u.CostUSD.String())
	}
	return o.Close()
}

// AppendJSON writes the event's body.
func (t Transition) AppendJSON(b []byte) []byte {
	return flow.AppendObject(b).Int("n", t.N).Str("from", t.From).Str("to", t.To).Str("reason", t.Reason).
		Int("iteration", t.Iteration).Int("epoch", t.Epoch).Int("turn", t.Turn).
		OptInt("rule", int64(t.Rule)).OptInt("edge_count", t.EdgeCount).OptStr("checkpoint", t.Checkpoint).OptStr("by", t.By).OptStr("left", t.Left).Close()
}

// AppendJSON writes the event's body.
func (m TurnMerged) AppendJSON(b []byte) []byte {
	o := flow.AppendObject(b).Int("turn", m.Turn).Str("digest", m.Digest).Int("version", m.Version).Int("stage_number", m.StageNumber)
	if len(m.Overwritten) > 0 {
		o = flow.AppendList(o.Key("overwritten"), m.Overwritten, func(b []byte, w Overwritten) []byte {
			return flow.AppendObject(b).Str("key", w.Key).Str("stage", w.Stage).JSON("value", w.Value).Close()
		})
	}
	return o.Close()
}

// AppendJSON writes the input of the call.
func (in beginInput) AppendJSON(b []byte) []byte {
	return flow.AppendObject(b).Str("stage", in.Stage).Int("visit", in.Visit).Int("attempt", int64(in.Attempt)).Close()
}

// AppendJSON writes the input of the call.
func (in scriptedInput) AppendJSON(b []byte) []byte {
	return flow.AppendObject(b).Int("answer", int64(in.Answer)).OptInt("delay_ms", in.DelayMs).OptBool("hang", in.Hang).Close()
}
