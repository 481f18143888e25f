package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/tipstaff/tipstaff/flow"
)

// traceparent is the name of the W3C trace context, in a header and in _meta.
const traceparent = "traceparent"

// traceOf is the trace context of an attempt. The run is the trace and the attempt
// is the span, each named by a hash, so that every process that has to do with a
// run gives it the same name without being told: the trace id is the first 16
// bytes of SHA-256 of the run's id, the span id the first 8 of that of run, path
// and number of the attempt, line by line.
func traceOf(t flow.Attempt) string {
	trace := sha256.Sum256([]byte(t.Run))
	span := sha256.Sum256([]byte(t.Run + "\n" + t.Path + "\n" + strconv.Itoa(t.N)))
	return "00-" + hex.EncodeToString(trace[:16]) + "-" + hex.EncodeToString(span[:8]) + "-01"
}
