package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
)

const (
	maxPreview = 4 << 10 // bytes of a result that stand in its event
	// maxImages is how many bytes of images a result may bring into a conversation,
	// so that the message can still be saved as one line.
	maxImages = maxLine / 8 * 5
	// maxImage is how many bytes an image may have that vendors accept: 5 MB in base64.
	maxImage = 5_000_000 / 4 * 3
	// maxShown is how many bytes of images a request has, below what vendors accept.
	maxShown = 16 << 20
)

// result is what became of a call.
type result struct {
	class     string // "": it was done
	content   []Content
	preview   string
	bytes     int64
	ref       string // digest of the whole
	took      time.Duration
	untrusted bool
	made      bool // it was handed to the tool

	grant *grant // that came with its approval
	gate  string
}

// refusal is the result of a call that was not made. The model is told why.
func refusal(class, why string) *result {
	text := class + ": " + why
	return &result{class: class, content: []Content{{Type: ContentText, Text: text}},
		preview: beginning(text, maxPreview), bytes: int64(len(text)), ref: flow.Digest([]byte(text))}
}

func refusalOf(e *flow.Error) *result { return refusal(e.Code, e.Message) }

// outcome makes a result of what a call brought back. An error beside it ends the
// turn; an error without one must be handed up.
func (t *turn) outcome(v tool.Verdict, r flow.Result, err error) (*result, error) {
	var failed *flow.Error
	if err != nil && !errors.Is(err, flow.ErrCancelled) && !errors.As(err, &failed) {
		return nil, err
	}
	var res *result
	switch {
	case err == nil:
		res = t.reply(readReply(r.Value), r.Value)
		res.untrusted, res.made = v.OpenWorld, true
	case failed == nil || failed.Code == tool.CodeKilled:
		res, err = refusal(ClassCancelled, "the turn was cancelled before this call was done"), flow.ErrCancelled
	default:
		res, err = t.failure(v, r, failed)
		res.made = !failed.NotSent
	}
	res.took = time.Duration(r.Ms) * time.Millisecond
	return res, err
}

// failure is the result of a call that failed, and whether the turn does.
func (t *turn) failure(v tool.Verdict, r flow.Result, failed *flow.Error) (*result, error) {
	switch {
	case failed.Code == flow.CodeInDoubt && r.By == "": // nobody was asked any more: the turn is cancelled
		return refusalOf(failed), flow.ErrCancelled
	case failed.Code == flow.CodeInDoubt, ends(failed.Code):
		return refusalOf(failed), failed
	case failed.Code == ClassPanic:
		return refusalOf(failed), &flow.Error{Code: CodeToolPanic, Message: failed.Message}
	case failed.Code == tool.CodeToolError:
		var reply tool.Reply
		if json.Unmarshal(failed.Detail, &reply) == nil && len(reply.Content) > 0 {
			res := t.reply(reply, failed.Detail)
			res.class, res.untrusted = failed.Code, v.OpenWorld
			return res, nil
		}
		res := refusalOf(failed)
		res.untrusted = v.OpenWorld
		return res, nil
	}
	return refusalOf(failed), nil
}

// readReply reads the value of a call. What a person gave in the place of a result
// that was lost may be any value.
func readReply(value json.RawMessage) tool.Reply {
	var reply tool.Reply
	if json.Unmarshal(value, &reply) == nil && (reply.Content != nil || reply.Structured != nil) {
		return reply
	}
	var text string
	if json.Unmarshal(value, &text) != nil {
		text = string(value)
	}
	return tool.Reply{Content: []Content{{Type: ContentText, Text: text}}}
}

// reply is a tool's reply as the model is shown it. whole is what is recorded of it.
func (t *turn) reply(reply tool.Reply, whole json.RawMessage) *result {
	res := &result{ref: flow.Digest(whole)}
	if len(reply.Content) == 0 && len(reply.Structured) > 0 {
		reply.Content = []Content{{Type: ContentText, Text: string(reply.Structured)}}
	}
	images := 0
	var texts []string
	for _, c := range reply.Content {
		switch {
		case c.Type == ContentText:
			texts = append(texts, c.Text)
			res.bytes += int64(len(c.Text))
		case c.Type == ContentImage && len(c.Data) > 0 && t.Caps.Images && images+len(c.Data) <= maxImages:
			images += len(c.Data)
			res.bytes += int64(len(c.Data))
			res.content = append(res.content, Content{Type: ContentImage, MimeType: c.MimeType, Data: c.Data})
		case c.Type == ContentImage && c.Kept && t.Caps.Images && c.Size <= maxImage && tool.Viewable(c.MimeType):
			res.bytes += int64(c.Size)
			res.content = append(res.content, c)
		default:
			size, line := told(c)
			texts = append(texts, line)
			res.bytes += size
		}
	}
	text := strings.Join(texts, "\n")
	res.preview = beginning(text, maxPreview)
	if len(texts) > 0 {
		text = shortText(text, t.MaxResultBytes, fmt.Sprintf("[… %d bytes in all, the whole is %s …]", len(text), res.ref))
		res.content = append([]Content{{Type: ContentText, Text: text}}, res.content...)
	}
	return res
}

// told is the line that stands for content which the model cannot be shown.
func told(c Content) (size int64, line string) {
	size, digest := int64(c.Size), c.Digest
	if len(c.Data) > 0 {
		size, digest = int64(len(c.Data)), flow.Digest(c.Data)
	}
	kind := c.MimeType
	if kind == "" {
		kind = c.Type
	}
	if c.Withheld {
		digest = "withheld: it holds a credential"
	}
	return size, fmt.Sprintf("[%s, %d bytes, %s]", kind, size, digest)
}

// Shown is a request with the bytes of the images that its conversation names, which
// read finds by their digest, for a model with these capabilities. A model that sees no
// images gets a line for each, as does one for which there are too many: then the newest
// are shown.
func (r Request) Shown(caps Caps, read func(digest string) ([]byte, error)) (Request, error) {
	r.Messages = slices.Clone(r.Messages)
	room := maxShown
	for i := len(r.Messages) - 1; i >= 0; i-- {
		m := &r.Messages[i]
		if !slices.ContainsFunc(m.Content, func(c Content) bool { return c.Kept }) {
			continue
		}
		m.Content = slices.Clone(m.Content)
		for n, c := range m.Content {
			if !c.Kept {
				continue
			}
			if room -= c.Size; !caps.Images || room < 0 {
				_, line := told(c)
				m.Content[n] = Content{Type: ContentText, Text: line}
				continue
			}
			data, err := read(c.Digest)
			if err != nil {
				return r, fmt.Errorf("an image of the conversation, %s, cannot be read: %w", c.Digest, err)
			}
			m.Content[n] = Content{Type: c.Type, MimeType: c.MimeType, Data: data}
		}
	}
	return r, nil
}

// Kept are the digests of the images that messages name.
func Kept(messages []Message) (digests []string) {
	for _, m := range messages {
		for _, c := range m.Content {
			if c.Kept && !slices.Contains(digests, c.Digest) {
				digests = append(digests, c.Digest)
			}
		}
	}
	return digests
}

// shortText is a text that may have most bytes: of a longer one the first three
// quarters, a line that says that something is missing, and the last quarter.
func shortText(text string, most int, missing string) string {
	if len(text) <= most {
		return text
	}
	return beginning(text, most-most/4) + "\n" + missing + "\n" + ending(text, most/4)
}

// beginning is at most n bytes of a text, up to the end of a character.
func beginning(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// ending is at most n bytes of a text, from the beginning of a character.
func ending(text string, n int) string {
	from := len(text) - n
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	return text[from:]
}

func isBlank(s string) bool { return strings.TrimSpace(s) == "" }

// Codes with which a turn ends, beside those of the calls that fail it.
const (
	CodeCancelled       = "cancelled"
	CodeContextOverflow = "context_overflow" // what must be sent does not fit the model
	CodePriceUnknown    = "price_unknown"    // there is a bound of cost, and nobody knows what the model costs
	CodeApproverFailed  = "approver_failed"  // who was to approve could not be asked
	CodeToolPanic       = "tool_panic"
	CodeOutputInvalid   = "output_invalid" // the answer does not fit the output schema
)

// Codes of answers that no run can end well with.
const (
	CodeOutputTruncated = "model_output_truncated"
	CodeModelRefused    = "model_refused"
	CodeEmptyResponse   = "empty_response"
)

// ConfigInvalid is the code of a configuration that no turn can be made with. Its
// Problems are all there are.
const ConfigInvalid tipstaff.Code = "config_invalid"

// Classes of results that never reached a tool, or did not come back. Others are
// the codes of package tool.
const (
	ClassNotOffered     = "not_offered"     // the router did not select it for this turn
	ClassApprovalDenied = "approval_denied" // a person said no, or nobody said anything in time
	ClassStepLimit      = "step_limit"      // the turn may take no more steps
	ClassCutOff         = "cut_off"         // the message that asks for it broke off
	ClassNotExecuted    = "not_executed"    // the turn ended before it came to this
	ClassCancelled      = "cancelled"
	ClassInDoubt        = flow.CodeInDoubt // it was sent, and nobody knows what became of it
	ClassPanic          = "panic"          // what performs calls panicked
)

// BoundSteps is the bound of a turn that Settings.MaxSteps sets.
const BoundSteps = "steps"

// ErrMaxSteps: the turn needed more steps than it may take.
var ErrMaxSteps = errors.New("agent: the turn may take no more steps")

// stepsExceeded is the failure that matches ErrMaxSteps.
type stepsExceeded struct{ failure *flow.Error }

func (e *stepsExceeded) Error() string        { return e.failure.Error() }
func (e *stepsExceeded) Unwrap() error        { return e.failure }
func (e *stepsExceeded) Is(target error) bool { return target == ErrMaxSteps }

// Failure is why a run cannot end well with this answer; nil if it can. The turn has
// finished all the same. It is a *flow.Error.
func (o Output) Failure() error {
	switch {
	case o.Reason == ReasonLength:
		return &flow.Error{Code: CodeOutputTruncated, Message: "the model's answer broke off at the most tokens that it may have", Answered: true}
	case o.Reason == ReasonContentFilter:
		return &flow.Error{Code: CodeModelRefused, Message: "the model, or a filter of its vendor, refused to answer", Answered: true}
	case isBlank(o.Text):
		return &flow.Error{Code: CodeEmptyResponse, Message: "the model answered nothing", Answered: true}
	}
	return nil
}
