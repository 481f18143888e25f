package provider

import (
	"cmp"
	"encoding/json"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/provider/reply"
)

// sendable is arguments as vendors take them back: an object, or none at all.
func sendable(arguments string) string {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &object) != nil || object == nil {
		return reply.EmptyArguments
	}
	return arguments
}

// sendableName is a tool's name as vendors take it back. A model may have made one
// up that they would refuse in every later request of the session.
func sendableName(name string) string {
	const most = 64
	name = cmp.Or(agent.PlainName(name), "_")
	return name[:min(len(name), most)]
}

// unseen stands for an image that the model cannot look at.
func unseen(c agent.Content) string {
	return "[an image, " + c.MimeType + ", which this model cannot see]"
}
