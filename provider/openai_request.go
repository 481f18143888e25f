package provider

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

// request is a conversation in the chat completions format.
func (m *openAIModel) request(r agent.Request, usage bool) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{
		Model:    m.name,
		Tools:    openAITools(r.Tools),
		Messages: m.conversation(r),
	}
	if usage {
		p.StreamOptions.IncludeUsage = openai.Bool(true)
	}
	if limit := int64(r.MaxOutputTokens); limit > 0 {
		if m.own {
			p.MaxCompletionTokens = openai.Int(limit)
		} else {
			p.MaxTokens = openai.Int(limit) // all that most imitations know
		}
	}
	// A router asks for temperature 0 of every model, also of those that take none.
	if !m.fixed || r.Purpose != agent.PurposeRouter {
		if r.Temperature != nil {
			p.Temperature = openai.Float(*r.Temperature)
		}
		if r.TopP != nil {
			p.TopP = openai.Float(*r.TopP)
		}
	}
	if len(r.OutputSchema) > 0 {
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
			Name: "output", Schema: r.OutputSchema, Strict: openai.Bool(strictSchema(r.OutputSchema)),
		}}
	}
	return p
}

// function is a tool's definition; its schema goes as the tool's server wrote it.
type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

func openAITools(offers []agent.Offer) []openai.ChatCompletionToolUnionParam {
	var tools []openai.ChatCompletionToolUnionParam
	for _, o := range offers {
		f := param.Override[shared.FunctionDefinitionParam](function{o.Name, o.Description, withProperties(o.Schema)})
		tools = append(tools, openai.ChatCompletionToolUnionParam{OfFunction: &openai.ChatCompletionFunctionToolParam{Function: f}})
	}
	return tools
}

// withProperties adds the empty list of properties that this vendor insists on to
// the schema of a tool without parameters.
func withProperties(schema json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(schema, &members) != nil || members == nil || members["properties"] != nil {
		return schema
	}
	members["properties"] = json.RawMessage("{}")
	return flow.JSON(members)
}

func (m *openAIModel) conversation(r agent.Request) []openai.ChatCompletionMessageParamUnion {
	var list []openai.ChatCompletionMessageParamUnion
	if r.System != "" {
		list = append(list, openai.SystemMessage(r.System))
	}
	var images []openai.ChatCompletionContentPartUnionParam // of the results so far, which can hold text alone
	for i, message := range r.Messages {
		switch message.Role {
		case agent.FromTool:
			text, seen := m.result(message, len(images)/2)
			list = append(list, openai.ToolMessage(text, message.CallID))
			images = append(images, seen...)
		case agent.Assistant:
			list = append(list, openAISaid(message))
		default:
			list = append(list, openai.UserMessage(message.Text))
		}
		// Nothing may stand between the results of one step.
		last := i == len(r.Messages)-1 || r.Messages[i+1].Role != agent.FromTool
		if last && len(images) > 0 {
			list = append(list, openai.UserMessage(images))
			images = nil
		}
	}
	return list
}

func openAISaid(message agent.Message) openai.ChatCompletionMessageParamUnion {
	said := &openai.ChatCompletionAssistantMessageParam{}
	if message.Text != "" || len(message.Calls) == 0 {
		said.Content.OfString = openai.String(message.Text)
	}
	for _, c := range message.Calls {
		said.ToolCalls = append(said.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID: c.ID,
				Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{
					Name: sendableName(c.Name), Arguments: sendable(c.Arguments),
				},
			},
		})
	}
	return openai.ChatCompletionMessageParamUnion{OfAssistant: said}
}

// result is a tool's result as text, and its images, each after a line that says
// which it is. before is how many images of this step there are already.
func (m *openAIModel) result(message agent.Message, before int) (string, []openai.ChatCompletionContentPartUnionParam) {
	var lines []string
	var images []openai.ChatCompletionContentPartUnionParam
	for _, c := range message.Content {
		switch {
		case c.Type != agent.ContentImage:
			lines = append(lines, c.Text)
		case !m.caps.Images:
			lines = append(lines, unseen(c))
		default:
			before++
			lines = append(lines, fmt.Sprintf("[image %d, below]", before))
			images = append(images,
				openai.TextContentPart(fmt.Sprintf("[image %d, of call %s]", before, message.CallID)),
				openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{
					URL: "data:" + c.MimeType + ";base64," + base64.StdEncoding.EncodeToString(c.Data),
				}))
		}
	}
	return strings.Join(lines, "\n"), images
}

// strictWords are the keywords with which the vendor can guarantee a schema.
var strictWords = map[string]bool{
	"type": true, "properties": true, "required": true, "additionalProperties": true, "items": true,
	"enum": true, "const": true, "anyOf": true, "description": true, "title": true,
}

// strictSchema tells whether the vendor would guarantee a schema. It refuses to
// promise one that leaves objects open or members optional.
func strictSchema(schema json.RawMessage) bool {
	var object map[string]any
	return json.Unmarshal(schema, &object) == nil && object["type"] == "object" && strict(object)
}

func strict(node any) bool {
	schema, ok := node.(map[string]any)
	if !ok {
		return false
	}
	for word := range schema {
		if !strictWords[word] {
			return false
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	if schema["type"] == "object" && schema["additionalProperties"] != false {
		return false
	}
	required, _ := schema["required"].([]any)
	if len(required) != len(properties) {
		return false
	}
	for _, p := range properties {
		if !strict(p) {
			return false
		}
	}
	choices, _ := schema["anyOf"].([]any)
	for _, c := range choices {
		if !strict(c) {
			return false
		}
	}
	items, has := schema["items"]
	return !has || strict(items)
}
