package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// answerOf is the answer that goes with an action, in the form in which commands give it.
func answerOf(g tipstaff.Gate, action string, in url.Values) (answer json.RawMessage, field string, err error) {
	bad := func(name, format string, args ...any) (json.RawMessage, string, error) {
		return nil, name, tipstaff.Errorf(tipstaff.InvalidArgument, format, args...)
	}
	switch {
	case action == "answer" && !tipstaff.AsksForText(g):
		return clarified(g, in)
	case action == "answer":
		text := in.Get("answer")
		if strings.TrimSpace(text) == "" {
			return bad("answer", "an answer is needed")
		}
		return tipstaff.TypedValue(text), "", nil
	case action == "extend":
		text := strings.TrimSpace(in.Get("amount"))
		if strings.HasPrefix(text, "{") && json.Valid([]byte(text)) {
			return json.RawMessage(text), "", nil
		}
		if _, err := tipstaff.ParseAmount(tipstaff.BoundOf(g), text); err != nil {
			return nil, "amount", err
		}
		return tipstaff.TypedValue(text), "", nil
	case action == "use_result":
		text := strings.TrimSpace(in.Get("result"))
		switch {
		case text == "" && g.Given != nil:
			return nil, "", nil
		case text == "":
			return bad("result", "a result is needed")
		case !json.Valid([]byte(text)):
			return bad("result", `the result is not JSON; text stands in quotes: "like this"`)
		}
		return json.RawMessage(text), "", nil
	case action == "modify":
		text := bytes.TrimSpace([]byte(in.Get("data")))
		var object map[string]json.RawMessage
		if json.Unmarshal(text, &object) != nil || object == nil {
			return bad("data", `the data is not a JSON object, like {"limit": 3}`)
		}
		return text, "", nil
	case len(tipstaff.AsksAgain(g, action)) > 0:
		if in.Get("obeyed") != "true" {
			return bad("obeyed", "%s changes what runs and programs obey here: say that it may", action)
		}
		return tipstaff.AcceptObeyed(), "", nil
	}
	return nil, "", nil
}

// clarified are the answers to the questions of a clarification.
func clarified(g tipstaff.Gate, in url.Values) (json.RawMessage, string, error) {
	answers := map[string]json.RawMessage{}
	for i, q := range tipstaff.QuestionsOf(g) {
		name := questionName(i)
		one, err := clarifiedOne(q, in.Get(name), in.Get(name+".empty") != "")
		if err != nil {
			return nil, name, tipstaff.Errorf(tipstaff.InvalidArgument, "%s: %v", q.Prompt, err)
		}
		if one != nil {
			answers[q.ID] = one
		}
	}
	raw, err := json.Marshal(answers)
	return raw, "", err
}

// clarifiedOne is the answer to one question; nil: it was left out. empty: an empty text is
// meant.
func clarifiedOne(q tipstaff.ClarifyQuestion, text string, empty bool) (json.RawMessage, error) {
	plain := strings.TrimSpace(text)
	switch {
	case text == "" && empty && q.Type == "text":
		return json.RawMessage(`""`), nil
	case plain == "" && q.HasDefault():
		return q.Default, nil
	case plain == "" && !q.Required:
		return nil, nil
	case plain == "":
		return nil, fmt.Errorf("an answer is needed")
	case q.Type == "number":
		if _, err := strconv.ParseFloat(plain, 64); err != nil || !json.Valid([]byte(plain)) {
			return nil, fmt.Errorf("%s is not a number like 3, -1 or 0.5", tipstaff.Quote(plain, 40))
		}
		return json.RawMessage(plain), nil
	case q.Type == "boolean":
		if plain != "true" && plain != "false" {
			return nil, fmt.Errorf("%s is neither yes nor no", tipstaff.Quote(plain, 40))
		}
		return json.RawMessage(plain), nil
	case len(q.Options) > 0 && !slices.Contains(q.Options, text):
		return nil, fmt.Errorf("%s is none of the answers", tipstaff.Quote(text, 40))
	}
	return json.Marshal(text)
}
