package agent

import "encoding/json"

// The types of a message once more, their members in the order of the canonical
// form. Every message of every step is digested; to sort its members each time was
// a sixth of what a step takes.
type (
	sortedMessage struct {
		CallID  string          `json:"call_id,omitempty"`
		Calls   []sortedCall    `json:"calls,omitempty"`
		Content []sortedContent `json:"content,omitempty"`
		IsError bool            `json:"is_error,omitempty"`
		Model   string          `json:"model,omitempty"`
		Opaque  json.RawMessage `json:"opaque,omitempty"`
		Partial bool            `json:"partial,omitempty"`
		Role    Role            `json:"role"`
		Text    string          `json:"text,omitempty"`
		Usage   *sortedUsage    `json:"usage,omitempty"`
	}
	sortedCall struct {
		Arguments string `json:"arguments"`
		ID        string `json:"id"`
		Name      string `json:"name"`
	}
	sortedContent struct {
		Data     []byte `json:"data,omitempty"`
		MimeType string `json:"mime_type,omitempty"`
		Text     string `json:"text,omitempty"`
		Type     string `json:"type"`
	}
	sortedUsage struct {
		CacheReadTokens  int64 `json:"cache_read_tokens"`
		CacheWriteTokens int64 `json:"cache_write_tokens"`
		CostUSD          *USD  `json:"cost_usd"`
		InputTokens      int64 `json:"input_tokens"`
		OutputTokens     int64 `json:"output_tokens"`
		ReasoningTokens  int64 `json:"reasoning_tokens"`
		TotalTokens      int64 `json:"total_tokens"`
	}
)

func sorted(m Message) *sortedMessage {
	s := &sortedMessage{CallID: m.CallID, IsError: m.IsError, Model: m.Model, Opaque: m.Opaque, Partial: m.Partial, Role: m.Role, Text: m.Text}
	for _, c := range m.Calls {
		s.Calls = append(s.Calls, sortedCall{Arguments: c.Arguments, ID: c.ID, Name: c.Name})
	}
	for _, c := range m.Content {
		s.Content = append(s.Content, sortedContent{Data: c.Data, MimeType: c.MimeType, Text: c.Text, Type: c.Type})
	}
	if u := m.Usage; u != nil {
		s.Usage = &sortedUsage{CacheReadTokens: u.CacheReadTokens, CacheWriteTokens: u.CacheWriteTokens, CostUSD: u.CostUSD,
			InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, ReasoningTokens: u.ReasoningTokens, TotalTokens: u.TotalTokens}
	}
	return s
}
