package web

import (
	"net/http"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// anyMethod is that of a route which looks at methods itself.
const anyMethod = ""

// route is one thing that can be asked for. All that clients are told of it, by the index and
// by the description in openapi.json, comes from here.
type route struct {
	method string
	path   string // {run} is the id of a run, another name in braces that of something of it
	about  string
	query  []param
	body   any  // of the request's type; nil: it has none
	empty  bool // the body may be missing
	keyed  bool // it takes an Idempotency-Key
	answer any  // of the answer's type; a string is its media type; nil: any object
	status []int
	public bool // it needs no token
	do     func(*call) (any, error)
}

// param is a parameter of a query.
type param struct {
	name, kind string // kind: string, integer
	list       bool
	about      string
}

var (
	limitParam   = param{"limit", "integer", false, "how many at most"}
	includeParam = param{"include", "string", true, "what is told in full: program, inputs, gates, errors, all"}
	afterParam   = param{"after", "integer", false, "the seq after which records are told"}
)

// routes are all that there are.
var routes []route

func init() {
	const get, post = http.MethodGet, http.MethodPost
	ok, accepted := []int{http.StatusOK}, []int{http.StatusAccepted}
	routes = []route{
		{method: get, path: "/", about: "The routes.", status: ok, do: (*call).index},
		{method: get, path: "/openapi.json", about: "The description of this API.", status: ok, do: (*call).description},
		{method: get, path: "/healthz", about: "Whether the server is there, and what it does.", answer: Health{}, status: []int{http.StatusOK, http.StatusServiceUnavailable}, public: true, do: (*call).health},
		{method: get, path: "/readyz", about: "Whether the server should be given work.", answer: Readiness{}, status: []int{http.StatusOK, http.StatusServiceUnavailable}, public: true, do: (*call).readiness},
		{method: get, path: "/version", about: "Which server this is.", answer: Version{}, status: ok, public: true, do: (*call).version},
		{method: get, path: "/metrics", about: "Counters for Prometheus.", answer: "text/plain", status: ok, do: (*call).metrics},

		{method: post, path: "/messages", about: "Have a plan drafted for what you say, accepted and run, and wait for it. A user has one message at a time.",
			body: tipstaff.Message{}, keyed: true, answer: tipstaff.MessageReply{}, status: []int{http.StatusOK, http.StatusAccepted}, do: (*call).message},
		{method: post, path: "/runs", about: "Start a run of a program, or of prose that a plan is drafted for.",
			body: tipstaff.Submission{}, keyed: true, answer: Accepted{}, status: []int{http.StatusOK, http.StatusAccepted}, do: (*call).submit},
		{method: get, path: "/runs", about: "Runs, newest first.", query: []param{limitParam,
			{"after", "string", false, "the run that the last page ended with"}, {"status", "string", true, "only runs with one of these"},
			{"project", "string", false, "only runs about this folder"}, {"thread", "string", false, "only runs of this thread"},
			{"session", "string", false, "only turns of this conversation"}}, answer: RunPage{}, status: ok, do: (*call).history},
		{method: get, path: "/runs/{run}", about: "A run: where it stands, its gates, bounds and outputs, and what can be done next.",
			query: []param{includeParam}, answer: tipstaff.RunStatus{}, status: ok, do: (*call).status},
		{method: get, path: "/runs/{run}/status", about: "The same.", query: []param{includeParam}, answer: tipstaff.RunStatus{}, status: ok, do: (*call).status},
		{method: get, path: "/runs/{run}/diagnose", about: "What is the matter with a run.", answer: tipstaff.Diagnosis{}, status: ok, do: (*call).diagnose},
		{method: get, path: "/runs/{run}/metrics", about: "What a run has used.", answer: tipstaff.RunMetrics{}, status: ok, do: (*call).used},
		{method: get, path: "/runs/{run}/evidence", about: "What is recorded of a run.", query: []param{limitParam,
			{"slice", "string", false, "one of: " + strings.Join(tipstaff.EvidenceSlices(), ", ") + "; else all"}, {"severity_min", "string", false, "leave out findings below it: P0 to P3"},
			{"stages", "string", true, "only what happened there"}, {"offset", "integer", false, "of each list"}},
			answer: tipstaff.RunEvidence{}, status: ok, do: (*call).evidence},
		{method: get, path: "/runs/{run}/diff", about: "What a run has changed.", query: []param{
			{"mode", "string", false, "stat, preview or full"}, {"path", "string", false, "a file, or all below it"}, {"stage", "string", false, "STAGE#VISIT; else at the end"},
			{"max_bytes", "integer", false, "of the text"}}, answer: tipstaff.DiffOf{}, status: ok, do: (*call).diff},
		{method: get, path: "/runs/{run}/delivery", about: "Where the delivery of a run's changes stands.", answer: tipstaff.DeliveryOf{}, status: ok, do: (*call).delivery},
		{method: get, path: "/runs/{run}/verify", about: "Check that the journal of a run is whole, and that the run has done what its program says.", answer: tipstaff.VerifiedRun{}, status: ok, do: (*call).verify},
		{method: get, path: "/runs/{run}/events", about: "Records of a run: a page, or all as they are written for clients that accept text/event-stream.",
			query:  []param{afterParam, limitParam, {"kinds", "string", true, "only records of these kinds"}, {"detail", "string", false, "summary, which cuts long texts, or full"}},
			answer: tipstaff.Tail{}, status: []int{http.StatusOK, http.StatusNoContent}, do: (*call).events},
		{method: get, path: "/runs/{run}/envelopes", about: "The signed records of a run, as they are stored.", query: []param{afterParam, limitParam},
			answer: tipstaff.Records{}, status: ok, do: (*call).envelopes},
		{method: get, path: "/runs/{run}/envelopes/{seq}", about: "One of them: its very bytes.", status: ok, do: (*call).envelope},
		{method: get, path: "/runs/{run}/artifacts/{name}", about: "A file of a run, by name or by digest.", answer: "application/octet-stream", status: ok, do: (*call).artifact},
		{method: get, path: "/runs/{run}/gates/{gate}", about: "A gate, by id or by key, with all that it asks about.", answer: tipstaff.Gate{}, status: ok, do: (*call).gate},
		{method: post, path: "/runs/{run}/gates/{gate}/decision", about: "Decide a gate. The same decision again gives the same bytes. It starts nothing unless resume is set.",
			body: Decision{}, status: ok, do: (*call).decide},
		{method: post, path: "/runs/{run}/resume", about: "Have a run go on, with a corrected program if one is given.",
			body: tipstaff.Continuation{}, empty: true, answer: Accepted{}, status: accepted, do: (*call).resume},
		{method: post, path: "/runs/{run}/cancel", about: "End a run.", body: Cancel{}, empty: true, answer: tipstaff.Cancellation{}, status: accepted, do: (*call).cancel},
		{method: post, path: "/runs/{run}/fork", about: "Make a run of the beginning of another, beside it or in its place. Resume starts it.",
			body: tipstaff.Branching{}, empty: true, answer: tipstaff.Run{}, status: accepted, do: (*call).fork},

		{method: get, path: "/pending", about: "Gates that wait for a decision, oldest first.", query: []param{limitParam,
			{"after", "string", false, "the gate that the last page ended with"}, {"kinds", "string", true, "only these kinds"}}, answer: tipstaff.PendingDecisions{}, status: ok, do: (*call).pending},
		{method: get, path: "/threads", about: "Threads, the one that changed last first.", query: []param{limitParam, {"before", "string", false, "the head that the last page ended with"}},
			answer: tipstaff.ThreadPage{}, status: ok, do: (*call).threads},

		{method: post, path: "/signin-codes", about: "Make a link that signs the bearer of this token in to the web page, once, within minutes.",
			answer: SigninCode{}, status: []int{http.StatusCreated}, do: (*call).signinCode},
		{method: anyMethod, path: "/mcp", about: "The control plane for MCP clients: streamable HTTP.", do: (*call).mcp},
	}
}

// match reports whether a path is that of the route, and the name that it has besides the run.
func (r *route) match(segments []string) (name string, fits bool) {
	parts := strings.Split(r.path[1:], "/")
	if len(parts) != len(segments) {
		return "", false
	}
	for i, part := range parts {
		switch {
		case part == "{run}": // it was read before
		case strings.HasPrefix(part, "{") && segments[i] != "":
			name = segments[i]
		case part != segments[i]:
			return "", false
		}
	}
	return name, true
}
