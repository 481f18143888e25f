package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
)

// State is the outcome of a call, as a state that has a mark.
func (i transcriptItem) State() string {
	switch i.Call.Outcome {
	case tipstaff.CallOK:
		return "done"
	case tipstaff.CallError:
		return "failed"
	case tipstaff.CallAsked:
		return "waiting"
	}
	return "running"
}

// Took is how long a call took.
func (i transcriptItem) Took() time.Duration {
	if i.Call.Ended.IsZero() {
		return -1
	}
	return time.Duration(i.Call.TookMS) * time.Millisecond
}

// Result is what the call gave, as far as it is shown.
func (i transcriptItem) Result() string { return passage(cutBytes(i.Call.Result, valueMost)) }

// ResultMore is how many bytes of the result are left out.
func (i transcriptItem) ResultMore() int64 {
	return i.Call.Cut + int64(len(i.Call.Result)-len(cutBytes(i.Call.Result, valueMost)))
}

// Whole is the address of all of the result; "": nothing has it.
func (i transcriptItem) Whole() string {
	if i.Call.Record > 0 {
		return recordAddress(i.Call.RecordRun, i.Call.Record)
	}
	return fileAddress(i.run, i.Call.Ref)
}

// Image is the address of an image of a result that may be shown; "": it may not be.
func (i transcriptItem) Image(m tipstaff.ConversationMedia) string {
	if !m.Kept || m.Bytes > imageMost || !slices.Contains(imageTypes, m.Type) {
		return ""
	}
	return fileAddress(i.run, m.Digest) + "?image=1"
}

// Gate is the address of the gate that asks about the call.
func (i transcriptItem) Gate() string {
	if i.Call.Gate == "" {
		return ""
	}
	return "/ui/runs/" + i.run.String() + "/gates/" + url.PathEscape(i.Call.Gate)
}

// argument is one of a call.
type argument struct {
	Name, Value string
	More        int // bytes that are left out
}

// Arguments are those of a call, in the order in which they were given.
func (i transcriptItem) Arguments() (all []argument) {
	in := json.NewDecoder(bytes.NewReader(i.Call.Arguments))
	if begin, err := in.Token(); err != nil || begin != json.Delim('{') || !json.Valid(i.Call.Arguments) {
		return []argument{argumentOf("", i.Call.Arguments)}
	}
	for in.More() {
		var value json.RawMessage
		name, _ := in.Token()
		if in.Decode(&value) != nil || len(all) == argumentsMost {
			break
		}
		all = append(all, argumentOf(fmt.Sprint(name), value))
	}
	return all
}

// argumentOf shows strings as the text that they are, and all else as JSON.
func argumentOf(name string, value json.RawMessage) argument {
	shown := valueText(value)
	a := argument{Name: name, Value: cutBytes(shown, valueMost)}
	a.More, a.Value = len(shown)-len(a.Value), passage(a.Value)
	return a
}

// valueText is a JSON value for people.
func valueText(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil && !bytes.Equal(value, []byte("null")) {
		return s
	}
	var b bytes.Buffer
	if json.Indent(&b, value, "", "  ") == nil {
		return b.String()
	}
	return string(value)
}

// First is the argument that stands in the line of a call.
func (i transcriptItem) First() string {
	if all := i.Arguments(); len(all) > 0 {
		return cut(tipstaff.Printable(all[0].Value), 60)
	}
	return ""
}
