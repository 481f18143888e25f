package worker

import (
	"encoding/json"
	"testing"
)

// What is given for a worker in doubt is checked before anything relies on it.
func TestGivenResults(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`)
	for name, c := range map[string]struct {
		answer  string
		schema  json.RawMessage
		reviews bool
		ok      bool
		ends    bool
	}{
		"data alone":             {`{"data":{"n":1}}`, schema, false, true, true},
		"data that misses":       {`{"data":{"n":"one"}}`, schema, false, false, false},
		"a text that fits":       {`{"text":"{\"n\":1}"}`, schema, false, true, true},
		"a text that does not":   {`{"text":"done"}`, schema, false, false, false},
		"a text, any output":     {`{"text":"done"}`, nil, false, true, true},
		"an unknown field":       {`{"text":"done","extra":1}`, nil, false, false, false},
		"another status":         {`{"status":"completed"}`, nil, false, false, false},
		"paused needs no data":   {`{"status":"paused","text":"Which?"}`, schema, false, true, false},
		"a verdict of a worker":  {`{"verdict":{"verdict":"approved"}}`, nil, false, false, false},
		"a verdict of a review":  {`{"verdict":{"verdict":"approved"}}`, nil, true, true, false},
		"a verdict that is none": {`{"verdict":{"verdict":"maybe"}}`, nil, true, false, false},
		"no object":              {`"done"`, nil, false, false, false},
	} {
		if _, ends, err := CheckGiven(json.RawMessage(c.answer), c.schema, c.reviews); (err == nil) != c.ok || ends != c.ends {
			t.Errorf("%s: ends %v, %v", name, ends, err)
		}
	}
}
