package tipstaff

import (
	"cmp"
	"encoding/json"
	"strconv"
)

// ConversationMedia is content that is no text.
type ConversationMedia struct {
	Type   string `json:"mime_type"`
	Bytes  int64  `json:"size"`
	Digest string `json:"digest,omitempty"`
	Kept   bool   `json:"kept,omitempty"` // it is an artifact of the run, by its digest
}

// ToldOf is to what item of a conversation an event belongs that is told and never recorded;
// "": to none.
func ToldOf(e *Event) string {
	switch e.Kind {
	case KindAgentTextDelta:
		b := BodyOf[AgentTextDelta](e)
		return toldOf(e.Path, b.Inside, b.Step)
	case KindToolProgress:
		return e.Path
	}
	return ""
}

// toldOf is that of a step.
func toldOf(path string, in Inside, step int) string {
	return Joined("|", agentOf(path, in), in.Invocation, in.Parent, strconv.Itoa(step))
}

// mediaOf is what is no text in the reply of a tool.
func mediaOf(value json.RawMessage) (all []ConversationMedia) {
	var reply struct {
		Content []struct {
			Type     string
			MimeType string `json:"mime_type"`
			Data     []byte
			Digest   string
			Size     int64
			Kept     bool
		}
	}
	if !decode(value, &reply) {
		return nil // a person gave it, and may give anything
	}
	for _, c := range reply.Content {
		if c.Type != "text" {
			all = append(all, ConversationMedia{cmp.Or(c.MimeType, c.Type), max(c.Size, int64(len(c.Data))), c.Digest, c.Kept})
		}
	}
	return all
}
