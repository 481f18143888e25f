package provider

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

// called is what became of one model call under the engine, the only one who
// retries.
type called struct {
	flow.Outcome
	attempts int
	took     time.Duration
	texts    []string // what each attempt said
}

// call drives one call with the retry rule of model calls.
func call(t *testing.T, m agent.Model) (c called) {
	t.Helper()
	act := flow.Activity{Run: func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		r := hello
		r.Path, r.Attempt = a.Path, a.N
		c.attempts = a.N
		said := ""
		response, err := m.Stream(ctx, r, func(d agent.Delta) { said += d.Text })
		c.texts = append(c.texts, said)
		if err != nil {
			return flow.Done{}, err
		}
		return flow.Done{Value: flow.JSON(response.Text)}, nil
	}}
	began := time.Now()
	out, err := flow.New(flow.NewMem(), nil).Drive(context.Background(), flow.Job{
		Run: "r", Root: "turn", Acts: map[string]flow.Activity{"model.call": act},
		Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
			r, err := fc.Do(flow.Call{Key: "model#1", Name: "model.call", Class: flow.Read, Timeout: 10 * time.Minute, Retry: flow.Retry{
				Max: 4, Backoff: 500 * time.Millisecond, Factor: 2, MaxBackoff: 30 * time.Second, Jitter: true}})
			return r.Value, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Outcome, c.took = out, time.Since(began)
	return c
}

// replies gives the n-th reply to the n-th request, and the last one to all that
// follow.
func replies(count *atomic.Int32, list ...func(http.ResponseWriter)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		n := int(count.Add(1))
		list[min(n, len(list))-1](w)
	}
}

func streams(body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { says(w, body) }
}

func refusal(status int, retryAfter string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(status)
	}
}

func TestThereIsOneRetryLayer(t *testing.T) {
	for _, c := range []struct {
		name     string
		replies  func(v vendor) []func(http.ResponseWriter)
		requests int32
		code     string // "": it succeeds with Hello
		least    time.Duration
		most     time.Duration
	}{
		{"overload in mid-stream, then an answer", func(v vendor) []func(http.ResponseWriter) {
			return []func(http.ResponseWriter){streams(v.overloaded), streams(v.text(`"Hel"`, `"lo"`))}
		}, 2, "", 0, 500 * time.Millisecond},
		{"cut every time", func(v vendor) []func(http.ResponseWriter) {
			return []func(http.ResponseWriter){streams(v.broken)}
		}, 5, CodeTruncated, 0, 8 * time.Second},
		{"unavailable every time", func(vendor) []func(http.ResponseWriter) {
			return []func(http.ResponseWriter){refusal(529, "")}
		}, 5, CodeUnavailable, 0, 8 * time.Second},
		{"a wait in seconds", func(v vendor) []func(http.ResponseWriter) {
			return []func(http.ResponseWriter){refusal(429, "7"), refusal(503, "9"), streams(v.text(`"Hello"`))}
		}, 3, "", 16 * time.Second, 16 * time.Second},
		{"a wait until a date", func(v vendor) []func(http.ResponseWriter) {
			return []func(http.ResponseWriter){func(w http.ResponseWriter) {
				refusal(429, time.Now().Add(20*time.Second).UTC().Format(http.TimeFormat))(w)
			}, streams(v.text(`"Hello"`))}
		}, 2, "", 19 * time.Second, 20 * time.Second},
		{"too long a wait", func(vendor) []func(http.ResponseWriter) {
			return []func(http.ResponseWriter){refusal(429, "121")}
		}, 1, CodeRateLimited, 0, 0},
		{"a bad request", func(vendor) []func(http.ResponseWriter) {
			return []func(http.ResponseWriter){refusal(400, "")}
		}, 1, CodeRejected, 0, 0},
		{"a bad key", func(vendor) []func(http.ResponseWriter) {
			return []func(http.ResponseWriter){refusal(401, "")}
		}, 1, CodeAuth, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, v vendor) {
				var count atomic.Int32
				got := call(t, v.openAt(t, servePipes(t, replies(&count, c.replies(v)...)).dial))
				if n := count.Load(); n != c.requests || got.attempts != int(c.requests) {
					t.Errorf("%d requests in %d attempts, want %d", n, got.attempts, c.requests)
				}
				if got.took < c.least || got.took > c.most {
					t.Errorf("it took %v, not %v to %v", got.took, c.least, c.most)
				}
				if c.code == "" && (got.Status != flow.Completed || string(got.Value) != `"Hello"` || got.texts[len(got.texts)-1] != "Hello") {
					t.Errorf("%+v, said %q", got.Outcome, got.texts)
				}
				if c.code != "" && (got.Status != flow.Failed || !strings.HasPrefix(got.Err.Error(), c.code)) {
					t.Errorf("%+v, want %s", got.Outcome, c.code)
				}
			})
		})
	}
}

func TestAskingAgainWithoutUsageIsTheSameAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var count atomic.Int32
		s := servePipes(t, replies(&count, func(w http.ResponseWriter) {
			w.WriteHeader(400)
			_, _ = w.Write([]byte(`{"error":{"message":"unknown field: stream_options"}}`))
		}, streams(gpt.text(`"Hello"`))))
		got := call(t, gpt.openAt(t, s.dial))
		if count.Load() != 2 || got.attempts != 1 || got.took != 0 || got.Status != flow.Completed {
			t.Errorf("%d requests in %d attempts and %v: %+v", count.Load(), got.attempts, got.took, got.Outcome)
		}
	})
}

func TestScriptedErrorsAreRetriedLikeAVendors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := openScript(t, `
version: 1
answers:
  - {when: {attempt: 1}, error: {status: 429, retry_after: 7s}}
  - {when: {attempt: 2}, text: "Hello", error: {status: 529, mid_stream: true, after_chunks: 2}}
  - {when: {attempt: 3}, text: "Hello", chunks: 5, error: {mid_stream: true, after_chunks: 3}}
  - {text: "Hello"}
`)
		got := call(t, m)
		if got.attempts != 4 || string(got.Value) != `"Hello"` || got.took < 7*time.Second {
			t.Errorf("%d attempts in %v: %+v", got.attempts, got.took, got.Outcome)
		}
		if want := []string{"", "Hello", "Hel", "Hello"}; strings.Join(got.texts, "|") != strings.Join(want, "|") {
			t.Errorf("said %q, want %q", got.texts, want)
		}
	})
}
