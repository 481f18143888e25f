package tool

import (
	"context"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/tipstaff/tipstaff/flow"
)

func TestTraceOfAnAttempt(t *testing.T) {
	const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	attempt := flow.Attempt{Run: "run-1", Path: "root/a", N: 1}
	own := traceOf(context.Background(), attempt)
	if id := TraceID("run-1").String(); !strings.HasPrefix(own, "00-"+id+"-") || !strings.HasSuffix(own, "-01") {
		t.Errorf("%s is not in the trace of the run, %s", own, id)
	}
	again := attempt
	again.N = 2
	if other := traceOf(context.Background(), again); other == own || other[:35] != own[:35] {
		t.Errorf("attempt 2 is %s, attempt 1 %s: want another span of the same trace", other, own)
	}
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), ParseTraceparent(caller))
	if got := traceOf(ctx, attempt); got != caller {
		t.Errorf("told of %s, want the span that is there, %s", got, caller)
	}
	for _, broken := range []string{"", "00-1-2-3", strings.Replace(caller, "0af7", "0000", 1) + "x", "00-" + strings.Repeat("0", 32) + caller[35:]} {
		if ParseTraceparent(broken).IsValid() {
			t.Errorf("%q names a span", broken)
		}
	}
}
