// Package vendor holds package provider against the SDKs of the vendors whose formats
// it speaks: they read the same streams and come to the same, and what they would
// send is what it sends. It is a module of its own, since those SDKs take minutes to
// compile; make test-vendor runs it. It knows provider from outside alone: by what
// goes over the wire.
package vendor

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/provider"
)

const (
	key      = "key-0123456789abcdef"
	claude   = "claude-sonnet-4-5"
	adaptive = "claude-opus-5-5" // thinks as hard as it is told to
	gpt      = "gpt-4.1"
	reasoner = "gpt-5"
	gemini   = "gemini-3.8-flash"
)

// sent is what a client sent.
type sent struct {
	Path string
	Head map[string]string
	Body any
}

// vendorServer answers every request with one stream and keeps the last request.
type vendorServer struct {
	*httptest.Server
	mu   sync.Mutex
	last sent
}

func serve(t *testing.T, stream string) *vendorServer {
	t.Helper()
	s := &vendorServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sent{Path: r.URL.RequestURI(), Head: map[string]string{}}
		for _, name := range []string{"Accept", "Content-Type", "X-Api-Key", "Anthropic-Version", "Authorization", "X-Goog-Api-Key"} {
			got.Head[name] = strings.Join(r.Header.Values(name), ", ")
		}
		d := json.NewDecoder(r.Body)
		d.UseNumber()
		if err := d.Decode(&got.Body); err != nil {
			t.Errorf("the request is not JSON: %v", err)
		}
		s.mu.Lock()
		s.last = got
		s.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, stream)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *vendorServer) request() sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// body is the last request again as the bytes of a document.
func (s *vendorServer) body(t failer) []byte {
	raw, err := json.Marshal(s.request().Body)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return raw
}

// failer is a test, of package testing or of rapid.
type failer interface {
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

func open(t failer, s *vendorServer, c provider.Config) agent.Model {
	c.APIKey, c.BaseURL = key, s.URL
	m, err := provider.Open(c)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return m
}

// ask is our answer.
func ask(t failer, m agent.Model, r agent.Request) agent.Response {
	response, err := m.Stream(context.Background(), r, func(agent.Delta) {})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return response
}

// The services, not the clients, where there are such: a client would look for keys in
// the environment.

func anthropicService(s *vendorServer) anthropic.MessageService {
	return anthropic.NewMessageService(anthropicoption.WithBaseURL(s.URL), anthropicoption.WithAPIKey(key), anthropicoption.WithMaxRetries(0))
}

func chatService(s *vendorServer) openai.ChatCompletionService {
	return openai.NewChatCompletionService(openaioption.WithBaseURL(s.URL), openaioption.WithAPIKey(key), openaioption.WithMaxRetries(0))
}

func openAIService(s *vendorServer) responses.ResponseService {
	return responses.NewResponseService(openaioption.WithBaseURL(s.URL), openaioption.WithAPIKey(key), openaioption.WithMaxRetries(0))
}

func geminiService(t failer, s *vendorServer) *genai.Models {
	client, err := genai.NewClient(context.Background(), &genai.ClientConfig{APIKey: key, Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: s.URL}})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return client.Models
}

// same compares what an SDK sent with what we sent.
func same(t failer, name string, theirs, ours sent) {
	if diff := cmp.Diff(theirs, ours); diff != "" {
		t.Errorf("%s (-theirs +ours):\n%s", name, diff)
	}
}
