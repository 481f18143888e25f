package provider

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/agent"
)

func TestTextArrivesInOrderAndIsCounted(t *testing.T) {
	eachVendor(t, func(t *testing.T, v vendor) {
		s := serve(t, events(v.text(`"Hello"`, `", "`, `"world"`, `"!"`)))
		h := ask(t, v.open(t, s), hello)
		if h.err != nil {
			t.Fatal(h.err)
		}
		want := []agent.Delta{{Channel: "answer", Text: "Hello"}, {Channel: "answer", Text: ", "}, {Channel: "answer", Text: "world"}, {Channel: "answer", Text: "!"}}
		if diff := cmp.Diff(want, h.deltas); diff != "" {
			t.Errorf("deltas (-want +got):\n%s", diff)
		}
		if h.Reason != agent.ReasonStop || h.Usage.InputTokens != 25 || h.Usage.OutputTokens != 15 || h.Usage.TotalTokens != 40 {
			t.Errorf("%+v, usage %+v", h.Response, h.Usage)
		}
		if !strings.HasPrefix(h.Model, v.model+"-") {
			t.Errorf("answered by %q", h.Model)
		}
	})
}

func TestDeltasArriveBeforeTheStreamEnds(t *testing.T) {
	eachVendor(t, func(t *testing.T, v vendor) {
		body := v.text(`"Hel"`, `"lo"`)
		first := strings.LastIndex(body[:strings.Index(body, `"lo"`)], "data: ")
		heard := make(chan struct{})
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, body[:first])
			w.(http.Flusher).Flush()
			<-heard // the stream goes on only when the delta is there
			_, _ = io.WriteString(w, body[first:])
		})
		var text string
		_, err := v.open(t, s).Stream(context.Background(), hello, func(d agent.Delta) {
			if text += d.Text; text == "Hel" {
				close(heard)
			}
		})
		if err != nil || text != "Hello" {
			t.Errorf("heard %q, %v", text, err)
		}
	})
}

// smile is a character of four bytes, which JSON writes as a pair of surrogates.
const smile = "\U0001F600"

func TestCharactersSplitOverDeltasAreWhole(t *testing.T) {
	for name, pieces := range map[string][]string{
		"pair in one delta":         {`"a\ud83d\ude00b"`},
		"pair over two deltas":      {`"a\ud83d"`, `"\ude00b"`},
		"pair with an empty one":    {`"a\ud83d"`, `""`, `"\ude00b"`},
		"bytes over two deltas":     {"\"a\xf0\x9f\"", "\"\x98\x80b\""},
		"bytes one by one":          {"\"a\xf0\"", "\"\x9f\"", "\"\x98\"", "\"\x80b\""},
		"plain":                     {`"a` + smile + `b"`},
		"capital digits":            {`"a\uD83D"`, `"\uDE00b"`},
		"escapes beside characters": {`"\u0061\ud83d"`, `"\ude00\u0062"`},
	} {
		t.Run(name, func(t *testing.T) {
			eachVendor(t, func(t *testing.T, v vendor) {
				h := ask(t, v.open(t, serve(t, events(v.text(pieces...)))), hello)
				if h.err != nil || h.Text != "a"+smile+"b" {
					t.Errorf("text %q, error %v", h.Text, h.err)
				}
			})
		})
	}
}

func TestHalfCharactersThatStayHalvesAreReplaced(t *testing.T) {
	for name, pieces := range map[string][]string{
		"first half at the end": {`"a\ud83d"`},
		"first half and text":   {`"a\ud83d"`, `"b"`},
		"second half alone":     {`"a\ude00"`},
		"two first halves":      {`"a\ud83d\ud83d"`},
		"bytes at the end":      {"\"a\xf0\x9f\""},
		"bytes and text":        {"\"a\xf0\"", `"b"`},
	} {
		t.Run(name, func(t *testing.T) {
			eachVendor(t, func(t *testing.T, v vendor) {
				h := ask(t, v.open(t, serve(t, events(v.text(pieces...)))), hello)
				if h.err != nil || !strings.HasPrefix(h.Text, "a\uFFFD") {
					t.Errorf("text %q, error %v", h.Text, h.err)
				}
			})
		})
	}
}

func TestStreamByteByByteIsTheSame(t *testing.T) {
	eachVendor(t, func(t *testing.T, v vendor) {
		body := v.text(`"Grüße, 世界 `+smile+` "`, `"\ud83d"`, `"\ude00"`)
		want := ask(t, v.open(t, serve(t, events(body))), hello)
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range len(body) {
				_, _ = w.Write([]byte{body[i]})
				w.(http.Flusher).Flush()
			}
		})
		got := ask(t, v.open(t, s), hello)
		if want.err != nil || got.err != nil {
			t.Fatal(want.err, got.err)
		}
		if got.Text != "Grüße, 世界 "+smile+" "+smile {
			t.Errorf("text %q", got.Text)
		}
		if diff := cmp.Diff(want.Response, got.Response); diff != "" {
			t.Errorf("whole and byte by byte differ:\n%s", diff)
		}
	})
}

func TestStreamsThatBreakOffMayBeTriedAgain(t *testing.T) {
	eachVendor(t, func(t *testing.T, v vendor) {
		t.Run("just ends", func(t *testing.T) {
			h := ask(t, v.open(t, serve(t, events(v.broken))), hello)
			if e := failed(t, h, CodeTruncated); !e.Retry || e.Answered {
				t.Errorf("%+v", e)
			}
			if h.Text != "Hel" {
				t.Errorf("of what was said %q is left", h.Text)
			}
		})
		t.Run("connection dies", func(t *testing.T) {
			s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				events(v.broken)(0, w, nil)
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			})
			h := ask(t, v.open(t, s), hello)
			if e := failed(t, h, CodeTruncated); !e.Retry || h.Text != "Hel" {
				t.Errorf("%+v after %q", e, h.Text)
			}
		})
		t.Run("overload", func(t *testing.T) {
			h := ask(t, v.open(t, serve(t, events(v.overloaded))), hello)
			if e := failed(t, h, CodeUnavailable); !e.Retry || e.Answered || h.Text != "Hel" {
				t.Errorf("%+v after %q", e, h.Text)
			}
		})
		t.Run("nothing at all", func(t *testing.T) {
			if e := failed(t, ask(t, v.open(t, serve(t, events(""))), hello), CodeTruncated); !e.Retry {
				t.Errorf("%+v", e)
			}
		})
	})
}

func TestMalformedStreamsAreNotTriedAgain(t *testing.T) {
	eachVendor(t, func(t *testing.T, v vendor) {
		for name, body := range map[string]string{
			"no JSON":       strings.Replace(v.text(`"a"`), `{"`, `{`, 1),
			"text a number": v.text(`1`),
			"bad escape":    v.text(`"\ud8"`),
		} {
			t.Run(name, func(t *testing.T) {
				if e := failed(t, ask(t, v.open(t, serve(t, events(body))), hello), CodeProtocol); e.Retry {
					t.Errorf("%+v", e)
				}
			})
		}
	})
}

func TestAnswersThatAreNoStream(t *testing.T) {
	eachVendor(t, func(t *testing.T, v vendor) {
		for _, c := range []struct{ name, kind, body, code string }{
			{"a page", "text/html; charset=utf-8", "<html>sign in</html>", CodeProtocol},
			{"a document", "application/json", `{"id":"1"}`, CodeProtocol},
			{"an error in disguise", "application/json", `{"error":{"type":"rate_limit_error","message":"slow down"}}`, CodeRateLimited},
		} {
			t.Run(c.name, func(t *testing.T) {
				s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", c.kind)
					_, _ = io.WriteString(w, c.body)
				})
				failed(t, ask(t, v.open(t, s), hello), c.code)
			})
		}
	})
}

func TestWhatStatusesMean(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		retry  bool
	}{
		{400, CodeRejected, false},
		{401, CodeAuth, false},
		{402, CodeRejected, false},
		{403, CodeAuth, false},
		{404, CodeRejected, false},
		{408, CodeUnavailable, true},
		{409, CodeRejected, false},
		{413, CodeOverflow, false},
		{418, CodeRejected, false},
		{422, CodeRejected, false},
		{429, CodeRateLimited, true},
		{500, CodeUnavailable, true},
		{501, CodeUnavailable, false},
		{502, CodeUnavailable, true},
		{503, CodeUnavailable, true},
		{504, CodeUnavailable, true},
		{529, CodeUnavailable, true},
	} {
		eachVendor(t, func(t *testing.T, v vendor) {
			for _, body := range []string{"", "<html>bad gateway</html>", `{"error":{"type":"some_error","message":"words of the vendor"}}`} {
				s := serve(t, refuses(c.status, body))
				h := ask(t, v.open(t, s), hello)
				e := failed(t, h, c.code)
				if e.Retry != c.retry || !e.Answered || e.After != 0 {
					t.Errorf("%d with %q: %+v", c.status, body, e)
				}
				if strings.Contains(body, "words") && !strings.Contains(e.Message, "some_error): words of the vendor") {
					t.Errorf("%d: the message is %q", c.status, e.Message)
				}
				if n := s.requests(); n != 1 {
					t.Errorf("%d: %d requests were made, there is one retry layer and it is elsewhere", c.status, n)
				}
			}
		})
	}
}

func TestRetryAfterIsTheLeastWait(t *testing.T) {
	eachVendor(t, func(t *testing.T, v vendor) {
		for _, c := range []struct {
			status   int
			value    string
			min, max time.Duration
		}{
			{429, "7", 7 * time.Second, 7 * time.Second},
			{503, "0.5", 500 * time.Millisecond, 500 * time.Millisecond},
			{529, "120", 120 * time.Second, 120 * time.Second},
			{429, time.Now().Add(time.Minute).UTC().Format(http.TimeFormat), 50 * time.Second, time.Minute},
			{429, time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat), 0, 0},
			{429, "-3", 0, 0},
			{429, "soon", 0, 0},
		} {
			h := ask(t, v.open(t, serve(t, refuses(c.status, "{}", "Retry-After", c.value))), hello)
			e := failed(t, h, map[int]string{429: CodeRateLimited, 503: CodeUnavailable, 529: CodeUnavailable}[c.status])
			if !e.Retry || e.After < c.min || e.After > c.max {
				t.Errorf("Retry-After %s: %+v", c.value, e)
			}
		}
	})
}

func TestTooLongAWaitFailsAtOnce(t *testing.T) {
	eachVendor(t, func(t *testing.T, v vendor) {
		for _, value := range []string{"121", "1e30", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)} {
			h := ask(t, v.open(t, serve(t, refuses(503, "{}", "Retry-After", value))), hello)
			e := failed(t, h, CodeRateLimited)
			var detail struct {
				RetryAt time.Time `json:"retry_at"`
			}
			if err := json.Unmarshal(e.Detail, &detail); err != nil || e.Retry || e.After != 0 {
				t.Fatalf("%+v: %v", e, err)
			}
			if left := time.Until(detail.RetryAt); left < 110*time.Second {
				t.Errorf("Retry-After %s: retry_at is in %v", value, left)
			}
		}
		h := ask(t, v.open(t, serve(t, refuses(400, "{}", "Retry-After", "500"))), hello)
		failed(t, h, CodeRejected)
	})
}

func TestTooLongARequestIsRecognised(t *testing.T) {
	eachVendor(t, func(t *testing.T, v vendor) {
		h := ask(t, v.open(t, serve(t, refuses(400, v.overflow))), hello)
		if e := failed(t, h, CodeOverflow); e.Retry {
			t.Errorf("%+v", e)
		}
	})
}

func TestTheKeyIsInNoError(t *testing.T) {
	eachVendor(t, func(t *testing.T, v vendor) {
		s := serve(t, refuses(401, v.keyEcho))
		e := failed(t, ask(t, v.open(t, s), hello), CodeAuth)
		for _, secret := range []string{testKey, "key-0123", "_TEST", "TEST"} {
			if strings.Contains(e.Error(), secret) || strings.Contains(string(e.Detail), secret) {
				t.Errorf("%q is in %v", secret, e)
			}
		}
		if !strings.Contains(e.Message, "api_key") {
			t.Errorf("the message does not say what to do: %s", e.Message)
		}
		// and it did get there
		if head := s.heads[0]; head.Get("X-Api-Key") != testKey && head.Get("Authorization") != "Bearer "+testKey && head.Get("X-Goog-Api-Key") != testKey {
			t.Errorf("the key was not sent: %v", head)
		}
	})
}

func TestLongMessagesOfVendorsAreCut(t *testing.T) {
	eachVendor(t, func(t *testing.T, v vendor) {
		e := failed(t, ask(t, v.open(t, serve(t, refuses(400, strings.Repeat("ü", 100_000)))), hello), CodeRejected)
		if len(e.Message) > 3<<10 || strings.Contains(e.Message, "\uFFFD") {
			t.Errorf("%d bytes, …%q", len(e.Message), e.Message[len(e.Message)-20:])
		}
	})
}

func TestRedirectsAreRefused(t *testing.T) {
	eachVendor(t, func(t *testing.T, v vendor) {
		other := serve(t, events(v.text(`"stolen"`)))
		for _, status := range []int{301, 302, 303, 307, 308} {
			s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+"/x", status) })
			e := failed(t, ask(t, v.open(t, s), hello), CodeRejected)
			if e.Retry || !strings.Contains(e.Message, "redirect") || !strings.Contains(e.Message, strings.TrimPrefix(other.URL, "http://")) {
				t.Errorf("%d: %+v", status, e)
			}
		}
		if n := other.requests(); n != 0 {
			t.Errorf("the other server got %d requests", n)
		}
	})
}

func TestTheEnvironmentIsNotRead(t *testing.T) {
	for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "GEMINI_API_KEY", "GOOGLE_API_KEY"} {
		t.Setenv(name, "from-the-environment")
	}
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1/")
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Odd: from-the-environment")
	eachVendor(t, func(t *testing.T, v vendor) {
		s := serve(t, events(v.text(`"a"`)))
		if h := ask(t, v.openWith(t, s, func(c *Config) { c.APIKey = "" }), hello); h.err != nil {
			t.Fatal(h.err)
		}
		for name, values := range s.heads[0] {
			if strings.Contains(strings.Join(values, " "), "from-the-environment") {
				t.Errorf("the header %s is %v", name, values)
			}
		}
	})
}

func TestPathsBelowTheBaseURL(t *testing.T) {
	for _, c := range []struct{ provider, base, want string }{
		{Anthropic, "", "/v1/messages"},
		{Anthropic, "/gateway/", "/gateway/v1/messages"},
		{OpenAI, "/v1", "/v1/responses"},
		{Gemini, "", "/v1beta/models/gemini-2.5-flash:streamGenerateContent"},
		{Gemini, "/gateway", "/gateway/v1beta/models/gemini-2.5-flash:streamGenerateContent"},
		{OpenAIChat, "/v1", "/v1/chat/completions"},
		{OpenAIChat, "/a/b/", "/a/b/chat/completions"},
	} {
		for _, v := range vendors {
			if v.provider != c.provider {
				continue
			}
			s := serve(t, events(v.text(`"a"`)))
			m := v.openWith(t, s, func(conf *Config) { conf.BaseURL += c.base })
			if h := ask(t, m, hello); h.err != nil || s.paths[0] != c.want {
				t.Errorf("%s%s: path %s, %v", c.provider, c.base, s.paths[0], h.err)
			}
		}
	}
}
