package worker

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
)

// MaxPrompt is the longest prompt, in bytes.
const MaxPrompt = 1 << 20

// Config is a worker as it is configured.
type Config struct {
	Name     string
	Type     string    // one of [Types]
	Command  string    // "": the binary of the type, looked for on PATH
	Args     []string  // appended to those of Tipstaff
	Environ  []string  // what its environment has besides, as NAME=value, whatever it is started for
	Settings string    // "none", "user"; "": none
	Script   string    // answers of a scripted worker
	Self     string    // Tipstaff's own executable, which CLIs start as their channel
	Version  string    // of Tipstaff
	Sandbox  string    // what the operator says the sandbox around Tipstaff is; "": there is none
	Starter  Starter   // asks CLIs for their versions; invocations may bring their own
	Versions *Versions // what they have said; nil: it is kept for this worker alone
	// Accepts refuses a CLI whose code is not what was accepted. It is asked before the CLI is
	// started for anything; nil: nothing is asked.
	Accepts func() error

	connect, linger, drain time.Duration
	open                   func(folder string, c Channel, p Policy, o channelOptions) (channel, error)
}

// CLI is a configured CLI. It is a [Worker].
type CLI struct {
	config Config
	of     *cliType
	rows   []row
}

var _ Worker = (*CLI)(nil)

// New makes a worker. Its CLI need not be installed.
func New(c Config) (*CLI, error) {
	w := &CLI{config: c, rows: rowsOf(c.Type)}
	switch {
	case !validName.MatchString(c.Name):
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "%s is not a name for a worker", tipstaff.Quote(c.Name, 80))
	case len(w.rows) == 0:
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "worker %q has the unknown type %s", c.Name, tipstaff.Quote(c.Type, 80)).
			WithHint("types are %s", strings.Join(Types(), ", "))
	case c.Settings != "" && c.Settings != "none" && c.Settings != "user":
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "settings of worker %q are %s", c.Name, tipstaff.Quote(c.Settings, 80)).WithHint("they are none or user")
	case c.Self == "" || c.Starter == nil:
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "worker %q is given no executable or no starter", c.Name)
	}
	w.of = w.rows[0].of
	if err := w.of.checkArgs(c.Args); err != nil {
		return nil, err
	}
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&w.config.connect, 60*time.Second)
	set(&w.config.linger, 120*time.Second)
	set(&w.config.drain, 5*time.Second)
	if c.open == nil {
		w.config.open = openChannel
	}
	if c.Versions == nil {
		w.config.Versions = &Versions{}
	}
	return w, nil
}

// ArgFaults are the args that a worker of a type may not be given: why, by their places.
func ArgFaults(typ string, args []string) map[int]string {
	for _, r := range rowsOf(typ) {
		return r.of.argFaults(args)
	}
	return nil
}

// Name is the worker's own.
func (w *CLI) Name() string { return w.config.Name }

// Command is the program as it is configured, or that of the type.
func (w *CLI) Command() string { return cmp.Or(w.config.Command, w.of.command, w.config.Self) }

func (w *CLI) settings() string {
	if w.config.Settings == "user" {
		return "user"
	}
	return "none"
}

// SupportsResumption reports whether some version of the CLI can go on with a session.
func (w *CLI) SupportsResumption() bool {
	return slices.ContainsFunc(w.rows, func(r row) bool { return r.resume != nil })
}

// Spawn begins a session.
func (w *CLI) Spawn(ctx context.Context, o Options) (Result, error) { return w.invoke(ctx, &o, false) }

// Resume goes on with one.
func (w *CLI) Resume(ctx context.Context, o Options) (Result, error) { return w.invoke(ctx, &o, true) }

// invoke runs the CLI once.
func (w *CLI) invoke(ctx context.Context, o *Options, resume bool) (Result, error) {
	o.Env = slices.Concat(o.Env, w.config.Environ)
	p, err := w.check(ctx, o, resume)
	if err != nil {
		return Result{}, err
	}
	if o.Begin != nil {
		if err := o.Begin(o); err != nil {
			return Result{}, err
		}
	}
	began := time.Now()
	secrets := Credentials(w.of.name, o.Env)
	ch, err := w.config.open(o.Folder, o.Channel, o.Policy, channelOptions{Hook: p.stance.hook, Type: w.of.name, Dir: o.Dir, Clean: redaction(o.Redact, secrets)})
	if err != nil {
		return Result{}, err
	}
	defer ch.close()

	l := &launch{of: w.of, o: o, stance: p.stance, user: w.settings() == "user", self: w.config.Self, script: w.config.Script, values: map[string][]string{}}
	l.env = slices.Concat(o.Env, w.of.always)
	for _, v := range ch.environ() {
		name, value, _ := strings.Cut(v, "=")
		l.setenv(name, value)
	}
	defer func() {
		for _, f := range l.cleanup {
			f()
		}
	}()
	if err := w.of.prepare(l); err != nil {
		return Result{}, fmt.Errorf("prepare worker %q: %w", w.config.Name, err)
	}
	logs, err := openLogs(o.Logs, o.Invocation)
	if err != nil {
		return Result{}, fmt.Errorf("logs of worker %q: %w", w.config.Name, err)
	}

	secrets[tokenName] = ch.token()
	i := &invocation{w: w, o: o, plan: p, resume: resume, ch: ch, logs: logs, clean: redaction(o.Redact, secrets), began: began}
	result := i.run(ctx, l)
	if err := logs.close(); err != nil {
		result.StderrTail += "\ntipstaff: the logs are not complete: " + err.Error()
	}
	return result, nil
}

// program is the CLI with its command line.
func (i *invocation) program(l *launch) Program {
	template := i.plan.row.spawn
	switch {
	case i.resume:
		template = i.plan.row.resume
	case i.o.Session.ForkOf != "":
		template = i.plan.row.fork
	}
	l.set("posture", l.stance.flags...)
	l.set("args", i.w.config.Args...)
	if i.o.Model != "" {
		l.set("model", i.o.Model)
	}
	l.set("id", i.o.Session.ID)
	l.set("source", i.o.Session.ForkOf)
	return Program{Path: i.plan.info.Path, Args: append([]string{i.plan.info.Path}, fill(template, l.values)...), Dir: i.o.Dir, Env: l.env, Input: []byte(i.o.Prompt)}
}

// invocation is one that is under way.
type invocation struct {
	w      *CLI
	o      *Options
	plan   plan
	resume bool
	ch     channel
	logs   *logs
	clean  func([]byte) []byte
	began  time.Time

	watch  *watch
	mapper *mapper
	reader reader
	long   *longLine

	mu     sync.Mutex // of what both readers use
	output int64      // bytes so far
	stderr tail
	plain  tail // what it printed that is no event

	retried bool // the last line of stderr is a notice that the CLI tries again
}

// run starts the CLI and stays with it to its end. The sink is called from here alone.
func (i *invocation) run(ctx context.Context, l *launch) Result {
	i.watch = &watch{limits: i.o.Limits, connect: i.w.config.connect, linger: i.w.config.linger, pulses: [2]*pulse{{}, {}}, causes: make(chan cause, 1)}
	i.mapper = newMapper(i.w.of, i.w.config.Name, i.o.Invocation, i.o.Sink.Event, i.logs.write)
	i.reader = i.w.of.reader(i.mapper)
	i.mapper.passed = i.ch.passed
	i.mapper.waits = func(id string) bool {
		return slices.ContainsFunc(i.ch.pending(), func(r Request) bool { return r.CallID == id })
	}
	i.mapper.onUsage = i.spending
	i.mapper.onChannel = func(status string) { i.watch.trip(cause{channel: "the CLI says of its channel: " + status}) }
	i.mapper.onSession = func(id string) {
		if err := i.o.Sink.Session(id); err != nil {
			i.watch.trip(cause{refused: err})
		}
	}

	f := facts{}
	var why *cause
	process, err := i.start(ctx, l)
	if err != nil {
		f.notStarted = true
		i.stderr.add([]byte("tipstaff: " + err.Error()))
		return i.result(f, why, Ended{})
	}
	for _, p := range i.watch.pulses {
		p.begin()
	}
	if err := i.told(process); err != nil {
		i.watch.trip(cause{refused: err})
	} else if !i.plan.known {
		i.mapper.warn(newerText(i.plan.info, i.plan.row))
	}
	ended, drained := make(chan Ended, 1), make(chan struct{})
	go func() {
		why = i.watch.run(ctx, process, i.ch)
		<-process.Exited()
		ended <- process.Wait()
		select {
		case <-drained:
		case <-time.After(i.w.config.drain): // a survivor holds the pipes
			closeReaders(process.Stdout(), process.Stderr())
		}
	}()
	var reading sync.WaitGroup
	reading.Go(func() { _ = readLines(process.Stderr(), i.clean, (*errorLines)(i)) })
	_ = readLines(process.Stdout(), i.clean, (*outputLines)(i))
	reading.Wait()
	close(drained)
	how := <-ended
	closeReaders(process.Stdout(), process.Stderr())
	return i.result(f, why, how)
}

func closeReaders(readers ...io.Reader) {
	for _, r := range readers {
		if c, ok := r.(io.Closer); ok {
			_ = c.Close()
		}
	}
}

// start starts the CLI; one that makes the id of a session beforehand is asked for it.
func (i *invocation) start(ctx context.Context, l *launch) (Process, error) {
	if before := i.plan.row.before; before != nil && !i.resume && i.o.Session.ID == "" {
		out, err := ask(ctx, i.o.Starter, i.plan.info.Path, before, l.env)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", i.plan.info.Path, strings.Join(before, " "), err)
		}
		if i.o.Session.ID = lastWord(out); i.o.Session.ID == "" || strings.HasPrefix(i.o.Session.ID, "-") {
			return nil, fmt.Errorf("%s %s prints no id: %s", i.plan.info.Path, strings.Join(before, " "), tipstaff.Quote(out, 200))
		}
	}
	return i.o.Starter.Start(i.program(l))
}

// told tells the sink that the CLI runs.
func (i *invocation) told(p Process) error {
	s := tipstaff.WorkerStarted{Invocation: i.o.Invocation, SessionID: i.o.Session.ID, Worker: i.w.config.Name, Type: i.w.of.name, Family: i.plan.info.Family,
		CLIVersion: i.plan.info.Version, Model: i.o.Model, Posture: string(i.o.Posture), Settings: i.w.settings(), Unenforced: i.plan.unenforced,
		Containment: i.o.Starter.Containment(), Dir: i.o.Dir, Resumed: i.resume, Identity: p.Identity()}
	if i.o.Posture == Bypass {
		s.Sandbox = i.w.config.Sandbox
	}
	if err := i.o.Sink.Started(s); err != nil {
		return err
	}
	if i.plan.row.before != nil && !i.resume {
		i.mapper.session(i.o.Session.ID)
	}
	return nil
}

// spending compares what was used so far with the limits.
func (i *invocation) spending(u tipstaff.ModelUsage) {
	var cost tipstaff.USD
	known := false
	if i.o.Price != nil {
		cost, known = i.o.Price(i.model(), u)
	}
	i.watch.spending(u, cost, known)
	if i.o.Spent != nil {
		i.o.Spent(u.InputTokens+u.OutputTokens, cost, known)
	}
}

func (i *invocation) model() string {
	if i.mapper.model != "" {
		return i.mapper.model
	}
	return i.o.Model
}

// count counts output. Beyond the limit nothing is kept.
func (i *invocation) count(n int) (keep bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.output += int64(n)
	if limit := i.o.Limits.Output; limit > 0 && i.output > limit {
		i.watch.trip(cause{limit: limitOutput})
		return false
	}
	return true
}

// result says how it ended, and tells the end.
func (i *invocation) result(f facts, why *cause, how Ended) Result {
	if why != nil {
		f.limit, f.cancelled, f.lingered = why.limit, why.cancelled, why.lingered
		f.noChannel = why.channel != ""
		if why.channel != "" {
			i.stderr.add([]byte("\ntipstaff: " + why.channel))
		}
		if why.refused != nil {
			f.notStarted = true
			i.stderr.add([]byte("\ntipstaff: " + why.refused.Error()))
		}
	}
	m := i.mapper
	m.settle()
	report, pending := i.ch.report(), i.ch.pending()
	select {
	case <-i.ch.authenticated():
		f.connected = true
	default:
	}
	f.report, f.pending, f.survivors, f.exit, f.events, f.end = report.Status, len(pending), len(how.Survivors), how.Exit, m.jsonLines, m.ended
	msg := ""
	if m.ended != nil {
		msg = m.ended.msg
		if f.limit == "" {
			f.limit = m.ended.limit
		}
	}
	f.fault = i.w.of.fault(i.resume, how.Exit, i.stderr.String()+"\n"+msg)
	denials := i.denials(pending)
	f.denials = len(denials)

	s := spend(i.w.of.cumulative, i.o.Session.Totals, m.used, m.ended, i.model(), i.o.Price)
	for _, warning := range s.warnings {
		m.warn(warning)
	}
	r := Result{Outcome: f.outcome(), SessionID: m.id, Exit: how.Exit, Text: m.text, Usage: s.usage, UsageKnown: s.usageKnown, CostUSD: s.cost, CostKnown: s.costKnown,
		Totals: s.totals, Denials: denials, DenialsKnown: i.w.of.denialsKnown, Pending: append([]Request{}, pending...), Report: report, Steps: m.steps, ToolCalls: m.calls,
		StderrTail: strings.TrimSpace(i.stderr.String()), Leftover: append([]tipstaff.LeftProcess{}, how.Leftover...), Containment: i.o.Starter.Containment(),
		CLIVersion: i.plan.info.Version, DurationMS: time.Since(i.began).Milliseconds(), Logs: i.logs.names}
	if r.Outcome == Empty { // all that there is: a CLI may decline in prose
		r.Text = strings.TrimSpace(i.plain.String())
	}
	if r.Outcome == Orphan {
		r.Leftover = append(r.Leftover, how.Survivors...)
	}
	if r.Outcome == Limit {
		r.Which = f.limit
	}
	r.IsError = m.ended != nil && m.ended.isError
	if r.SessionID == "" {
		r.SessionID = i.o.Session.ID
	}
	if r.Report.Outputs == nil {
		r.Report.Outputs = []tipstaff.TaskOutput{}
	}
	if r.IsError {
		r.Error, _ = cutRunes(msg, textShown)
	}
	if msg == "" && r.Outcome.failed() {
		msg = tipstaff.Joined(", ", exitText(how.Exit), r.StderrTail)
	}
	m.close(r.Outcome, r.Which, msg, s.usage)
	return r
}

// denials are those of the hook and those that the stream tells, each call once; those
// that wait for a person are not denied.
func (i *invocation) denials(pending []Request) []Denial {
	all := []Denial{}
	for _, d := range append(slices.Clone(i.ch.denials()), i.mapper.refused...) {
		same := func(id string) bool { return id == d.CallID && id != "" }
		if !slices.ContainsFunc(all, func(other Denial) bool { return same(other.CallID) }) &&
			!slices.ContainsFunc(pending, func(r Request) bool { return same(r.CallID) }) {
			all = append(all, d)
		}
	}
	return all
}

// outputLines takes the lines of stdout.
type outputLines invocation

func (o *outputLines) line(raw []byte) {
	i := (*invocation)(o)
	if !i.count(len(raw)) {
		return
	}
	i.keep(raw)
	events := i.mapper.jsonLines
	if i.mapper.line(i.reader, raw); i.mapper.jsonLines == events {
		i.plain.add(raw)
	}
}

func (o *outputLines) piece(raw []byte, last bool) {
	i := (*invocation)(o)
	if !i.count(len(raw)) {
		return
	}
	i.keep(raw)
	if i.long == nil {
		i.long = &longLine{}
	}
	if !last {
		i.long.add(raw)
	} else {
		i.long.add(trimEnd(raw))
		i.mapper.retry = false
		i.mapper.long(i.long)
		i.long = nil
	}
}

// keep writes to the raw log.
func (i *invocation) keep(raw []byte) {
	if _, err := i.logs.raw.Write(raw); err != nil {
		i.watch.trip(cause{refused: err})
	}
}

func (o *outputLines) alive(whole bool) {
	if whole {
		o.watch.pulses[0].ended(!o.mapper.retry)
	} else {
		o.watch.pulses[0].partial()
	}
}

func (o *outputLines) quiet() {
	if err := o.logs.flush(); err != nil {
		o.watch.trip(cause{refused: err})
	}
}

// errorLines takes those of stderr.
type errorLines invocation

func (e *errorLines) line(raw []byte) {
	e.piece(raw, true)
	if p := e.w.of.retries; p != nil && bytes.IndexAny(raw, " \t}") != 0 { // a line that begins so goes on with the one before it
		e.retried = p.Match(raw)
	}
}

func (e *errorLines) piece(raw []byte, _ bool) {
	i := (*invocation)(e)
	if !i.count(len(raw)) {
		return
	}
	i.stderr.add(raw)
	_, _ = i.logs.stderr.Write(raw)
}

func (e *errorLines) alive(whole bool) {
	if whole {
		e.watch.pulses[1].ended(!e.retried)
	} else {
		e.watch.pulses[1].partial()
	}
}

func (e *errorLines) quiet() { _ = e.logs.stderr.Flush() }

func lastWord(s string) string {
	words := strings.Fields(s)
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}
