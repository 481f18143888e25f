package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/tipstaff/tipstaff/agent"
)

// StreamFunc answers a request, as agent.Model's Stream does.
type StreamFunc func(ctx context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error)

// FuncModel is a model for tests: a function that may block, fail or panic.
type FuncModel struct {
	// Limits is what Caps gives. Func sets it to a large model that costs nothing.
	Limits agent.Caps

	stream   StreamFunc
	mu       sync.Mutex
	requests []agent.Request
}

// Func makes a model of a function. It may be called from several goroutines.
func Func(f StreamFunc) *FuncModel {
	return &FuncModel{stream: f, Limits: agent.Caps{
		ContextWindow: 200_000, MaxOutput: 64_000, Images: true, StructuredOutput: true, Price: &agent.Price{},
	}}
}

func (m *FuncModel) Name() string     { return "func" }
func (m *FuncModel) Caps() agent.Caps { return m.Limits }

// Stream notes the request and calls the function.
func (m *FuncModel) Stream(ctx context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error) {
	m.mu.Lock()
	m.requests = append(m.requests, copyRequest(r))
	m.mu.Unlock()
	return m.stream(ctx, r, emit)
}

// Requests is what the model was asked so far, in that order: copies.
func (m *FuncModel) Requests() []agent.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]agent.Request, len(m.requests))
	for i, r := range m.requests {
		list[i] = copyRequest(r)
	}
	return list
}

func copyRequest(r agent.Request) agent.Request {
	r.Temperature, r.TopP = copyOf(r.Temperature), copyOf(r.TopP)
	r.OutputSchema = bytes.Clone(r.OutputSchema)
	r.Tools = slices.Clone(r.Tools)
	for i := range r.Tools {
		r.Tools[i].Schema = bytes.Clone(r.Tools[i].Schema)
	}
	r.Messages = slices.Clone(r.Messages)
	for i := range r.Messages {
		r.Messages[i] = copyMessage(r.Messages[i])
	}
	return r
}

func copyMessage(m agent.Message) agent.Message {
	m.Calls = slices.Clone(m.Calls)
	m.Content = slices.Clone(m.Content)
	for i := range m.Content {
		m.Content[i].Data = bytes.Clone(m.Content[i].Data)
	}
	if m.Usage = copyOf(m.Usage); m.Usage != nil {
		m.Usage.CostUSD = copyOf(m.Usage.CostUSD)
	}
	m.Opaque = json.RawMessage(bytes.Clone(m.Opaque))
	return m
}

func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
