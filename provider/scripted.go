package provider

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/provider/file"
)

// scriptedModel answers from a script. It keeps no state: an answer is a function of
// the request, so that a run that is resumed gets what an undisturbed one got.
type scriptedModel struct {
	wire   *wire // for its failures, which are those of a vendor
	name   string
	caps   agent.Caps
	script *file.Script
}

func newScripted(c Config) (agent.Model, error) {
	if c.APIKey != "" || c.BaseURL != "" || c.Cache != "" || c.Thinking != "" {
		return nil, invalid("provider %s takes no api_key, base_url, cache or thinking", Scripted)
	}
	if c.Model == "" {
		c.Model = Scripted
	}
	if c.ScriptName == "" {
		c.ScriptName = "the script"
	}
	script, err := file.ParseScript(c.ScriptName, c.Script)
	if err != nil {
		return nil, err
	}
	caps := agent.Caps{ContextWindow: file.UnknownWindow, Images: true, StructuredOutput: true, Price: &agent.Price{}}
	if c.ContextWindow > 0 {
		caps.ContextWindow = c.ContextWindow
	}
	return &scriptedModel{wire: newWire(Scripted, c.ScriptName, "", nil), name: c.Model, caps: caps, script: script}, nil
}

func (m *scriptedModel) Name() string     { return m.name }
func (m *scriptedModel) Caps() agent.Caps { return m.caps }

// Stream gives the answer of the first entry that fits.
func (m *scriptedModel) Stream(ctx context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error) {
	a, err := m.script.Find(&r)
	if err != nil {
		return agent.Response{}, err
	}
	response := agent.Response{Model: m.name}
	for _, chunk := range chunksOf(a) {
		if err := pause(ctx, a.Delay); err != nil {
			return response, err
		}
		if chunk != "" {
			response.Text += chunk
			emit(agent.Delta{Channel: agent.ChannelAnswer, Text: chunk})
		}
	}
	if a.Error != nil {
		return response, m.fail(a.Error)
	}
	for _, c := range a.Calls {
		response.Calls = append(response.Calls, agent.Call{ID: c.ID, Name: offeredName(c.Tool, r.Tools), Arguments: c.Arguments()})
	}
	response.Reason = a.Finish
	if response.Reason == agent.ReasonStop && len(response.Calls) > 0 {
		response.Reason = agent.ReasonToolCalls
	}
	response.Usage = summed(used(a, r, response))
	return response, nil
}

// fail is the failure that a vendor's server would have caused.
func (m *scriptedModel) fail(f *file.Failure) error {
	if f.Status == 0 {
		return m.wire.truncated("as the script wants")
	}
	said := fault{Status: f.Status, Kind: f.Type, Message: f.Message, Header: http.Header{}}
	if f.RetryAfter > 0 {
		said.Header.Set("Retry-After", strconv.FormatFloat(f.RetryAfter.Seconds(), 'f', -1, 64))
	}
	e := m.wire.failure(said)
	e.Answered = !f.MidStream
	return e
}

// chunksOf are the pieces in which an answer comes; one at least, since the delay
// holds also where nothing is said. Before an error in mid-stream they are pieces of
// the text or, where the entry has none, dots.
func chunksOf(a *file.Answer) (chunks []string) {
	switch f := a.Error; {
	case f == nil:
		chunks = pieces(a.Text, a.Chunks)
	case f.MidStream && a.Text != "":
		chunks = pieces(a.Text, max(a.Chunks, f.AfterChunks))
		chunks = chunks[:min(f.AfterChunks, len(chunks))]
	case f.MidStream:
		chunks = pieces(strings.Repeat("…", f.AfterChunks), f.AfterChunks)
	}
	if len(chunks) == 0 {
		return []string{""}
	}
	return chunks
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pieces cuts a text into n parts of about the same length, at the borders of
// characters; fewer, if it is too short.
func pieces(text string, n int) []string {
	runes := []rune(text)
	n = min(max(n, 1), len(runes))
	var list []string
	for i := range n {
		list = append(list, string(runes[i*len(runes)/n:(i+1)*len(runes)/n]))
	}
	return list
}

// offeredName is the name of server/tool among the offers. One that is not offered
// is asked for all the same: a model may do so too.
func offeredName(tool string, offers []agent.Offer) string {
	for _, o := range offers {
		if o.Tool == tool {
			return o.Name
		}
	}
	return strings.ReplaceAll(tool, "/", "__")
}

// used is what the script says was used, or an estimate of it.
func used(a *file.Answer, r agent.Request, said agent.Response) *agent.Usage {
	if a.Usage != nil {
		return copyOf(a.Usage)
	}
	output := said.Text
	for _, c := range said.Calls {
		output += c.Name + c.Arguments
	}
	return &agent.Usage{InputTokens: agent.Estimate(r), OutputTokens: agent.EstimateText(output)}
}
