package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

// Kinds of sessions.
const (
	kindChat   = "chat"
	kindWorker = "worker"
)

type sessionsOptions struct {
	*app
	kind          string
	all, raw, log bool
}

func newSessions(a *app) *cobra.Command {
	o := &sessionsOptions{app: a}
	cmd := &cobra.Command{
		Use:   "sessions [ID]",
		Short: "List conversations, with chats and with workers, or show one",
		Long: `A session is a conversation that outlives one turn: a chat, whose turns are runs, or a
worker's, whose turns are processes of its CLI. They are listed newest first, each
with the command that goes on with it.

With ID, a session's id or the beginning of one, that session is shown: of a chat what
was said, of a worker the log of its last invocation.`,
		Example: "  tipstaff sessions\n  tipstaff sessions --kind worker --all\n  tipstaff sessions 01JCQ8 --log",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(args); err != nil {
				return err
			}
			if len(args) == 0 {
				return o.list(cmd.Context())
			}
			return o.show(cmd.Context(), args[0])
		},
	}
	cmd.Flags().StringVar(&o.kind, "kind", "", "only sessions of this `kind`: chat or worker")
	cmd.Flags().BoolVar(&o.all, "all", false, "also sessions of workers that are over, and however many there are")
	cmd.Flags().BoolVar(&o.raw, "raw", false, "print what a worker's CLI printed in its last invocation, as it was received")
	cmd.Flags().BoolVar(&o.log, "log", false, "print the same for people")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions([]string{kindChat, kindWorker}, cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that is not there
	return cmd
}

func (o *sessionsOptions) check(args []string) error {
	switch {
	case o.kind != "" && o.kind != kindChat && o.kind != kindWorker:
		return &usageError{message: fmt.Sprintf("--kind %s is neither chat nor worker", o.kind)}
	case o.raw && o.log:
		return &usageError{message: "--raw and --log exclude each other: give only one of them"}
	case (o.raw || o.log) && len(args) == 0:
		return &usageError{message: "--raw and --log are about one session: name it"}
	case (o.raw || o.log) && o.kind == kindChat:
		return &usageError{message: "--raw and --log are about sessions of workers; what was said in a chat is shown without them"}
	}
	return nil
}

// sessionEntry is a session as lists show it.
type sessionEntry struct {
	Kind      string    `json:"kind"`
	Session   string    `json:"session"`
	User      string    `json:"user"`
	State     string    `json:"state"` // of a chat that of its last turn: running, waiting, unfinished, completed, failed, cancelled; of a worker new, live, running, lost, closed
	UpdatedAt time.Time `json:"updated_at"`
	Command   string    `json:"command,omitempty"` // that goes on with it; "": nothing does

	// Of a chat.
	Agent   string      `json:"agent,omitempty"`
	Model   string      `json:"model,omitempty"` // of a worker, too, if it was chosen
	Turns   int64       `json:"turns,omitempty"`
	Last    tipstaff.ID `json:"last_run_id,omitzero"`
	Opening string      `json:"opening,omitempty"`
	Words   string      `json:"last_words,omitempty"`

	// Of a worker.
	Worker      string        `json:"worker,omitempty"`
	SessionID   string        `json:"session_id,omitempty"` // as the CLI calls it
	Task        string        `json:"task,omitempty"`
	Run         string        `json:"run_id,omitempty"`
	Path        string        `json:"path,omitempty"`
	Pid         int           `json:"pid,omitempty"` // of the process under way
	Dir         string        `json:"dir,omitempty"`
	Cost        *tipstaff.USD `json:"cost_usd,omitempty"`
	Invocations int           `json:"invocations,omitempty"`
	Event       string        `json:"last_event,omitempty"`
}

// mostListed is how many sessions are listed.
const mostListed = 50

// list prints the newest sessions, and says how many there are besides.
func (o *sessionsOptions) list(ctx context.Context) error {
	svc, err := o.open(ctx, toRead)
	if err != nil {
		return err
	}
	var sessions []sessionEntry
	left := 0
	if o.kind != kindWorker {
		if sessions, left, err = o.chats(ctx, svc); err != nil {
			return err
		}
	}
	if o.kind != kindChat {
		workers, err := o.workers(ctx, tipstaff.SessionQuery{All: o.all})
		if err != nil {
			return err
		}
		for _, w := range workers {
			sessions = append(sessions, o.workerEntry(w))
		}
		slices.SortStableFunc(sessions, func(a, b sessionEntry) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
		if over := len(sessions) - mostListed; !o.all && over > 0 {
			sessions, left = sessions[:mostListed], left+over
		}
	}
	if len(sessions) == 0 && !o.json {
		none := noSessions[o.kind]
		if over, err := o.workers(ctx, tipstaff.SessionQuery{All: true}); err == nil && o.kind == "" && len(over) > 0 {
			none = noSessions[kindWorker]
		}
		fmt.Fprintln(o.err, none)
		return nil
	}
	head, row := o.columns()
	if err := printTable(o.app, sessions, head, row); err != nil {
		return err
	}
	if left > 0 {
		fmt.Fprintf(o.err, "%s not listed; --all lists them\n", plural(left, "older session"))
	}
	return nil
}

var noSessions = map[string]string{
	"":         "no sessions yet; begin one: tipstaff chat",
	kindChat:   "no sessions yet; begin one: tipstaff chat",
	kindWorker: "no worker has a session that can be gone on with; --all lists those that are over",
}

// columns are those of the kind that is listed.
func (o *sessionsOptions) columns() (head string, row func(sessionEntry) string) {
	at := func(s sessionEntry) string { return s.UpdatedAt.UTC().Format(time.DateTime) }
	switch o.kind {
	case kindChat:
		return "SESSION\tLAST TURN\tTURNS\tSTATE\tAGENT\tMODEL\tLAST RUN\tTO GO ON\tLAST WORDS", func(s sessionEntry) string {
			return fmt.Sprintf("%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s", s.Session, at(s), s.Turns, s.State, clean(s.Agent), clean(s.Model), s.Last, clean(s.Command), clean(s.Words))
		}
	case kindWorker:
		return "SESSION\tLAST USED\tSTATE\tWORKER\tTASK\tPID\tCOST\tTO GO ON\tDIR\tLAST EVENT", func(s sessionEntry) string {
			pid := "-"
			if s.Pid > 0 {
				pid = fmt.Sprint(s.Pid)
			}
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t$%s\t%s\t%s\t%s", clean(s.Session), at(s), s.State, clean(s.Worker), clean(cmp.Or(s.Task, "-")), pid, s.Cost,
				clean(cmp.Or(s.Command, "-")), clean(s.Dir), clean(s.Event))
		}
	}
	return "SESSION\tKIND\tLAST USED\tSTATE\tWITH\tTO GO ON\tLAST WORDS", func(s sessionEntry) string {
		with, last := s.Agent, s.Words
		if s.Kind == kindWorker {
			with, last = s.Worker, s.Event
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s", clean(s.Session), s.Kind, at(s), s.State, clean(with), clean(cmp.Or(s.Command, "-")), clean(last))
	}
}

// chats are one's own, newest first, and how many there are besides.
func (o *sessionsOptions) chats(ctx context.Context, svc tipstaff.Service) (sessions []sessionEntry, left int, err error) {
	req := tipstaff.ListRequest{Heads: true, Own: true, Limit: mostListed}
	for {
		page, err := svc.List(ctx, req)
		if err != nil {
			return nil, 0, err
		}
		for _, r := range page.Runs {
			if len(sessions) >= mostListed && !o.all {
				left++
				continue
			}
			sessions = append(sessions, o.chatEntry(ctx, svc, r))
		}
		if page.Next.IsZero() {
			return sessions, left, nil
		}
		req.Before, req.Limit = page.Next, 10*mostListed
	}
}

// chatEntry is a chat by its last turn. One whose words cannot be read is listed all the
// same.
func (o *sessionsOptions) chatEntry(ctx context.Context, svc tipstaff.Service, r tipstaff.Run) sessionEntry {
	state := string(r.State)
	switch {
	case r.State.Terminal():
	case r.Condition == tipstaff.Interrupted:
		state = "unfinished"
	default:
		state = string(r.Condition)
	}
	said, err := tipstaff.Transcript(ctx, svc, r)
	words := ""
	for _, m := range said {
		if m.Text != "" && m.Role != tipstaff.RoleTool {
			words = m.Text
		}
	}
	if err != nil {
		words = "(cannot be read: " + err.Error() + ")"
	}
	return sessionEntry{
		Kind: kindChat, Session: r.Turn.Session, User: r.User, State: state, UpdatedAt: r.UpdatedAt, Command: o.invocation("chat", "--session", r.Turn.Session),
		Agent: r.Turn.Agent, Model: r.Turn.Model, Turns: r.Turn.Number, Last: r.ID, Opening: r.Turn.Opening, Words: firstWords(words),
	}
}

// wordsShown is how much of the last words a list has, in runes.
const wordsShown = 80

func firstWords(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(text); len(runes) > wordsShown {
		return string(runes[:wordsShown-1]) + "…"
	}
	return text
}

// workers are one's own sessions with workers, newest first. A server tells of none.
func (o *sessionsOptions) workers(ctx context.Context, q tipstaff.SessionQuery) ([]tipstaff.WorkerSession, error) {
	sessions := o.session.Sessions()
	if sessions == nil {
		if o.kind == kindWorker && o.server != "" {
			return nil, &usageError{message: "sessions of workers are on the machine where they work; --server does not apply"}
		}
		return nil, nil
	}
	return sessions.WorkerSessions(ctx, q)
}

// stateRunning is that of a session whose worker is at work.
const stateRunning = "running"

func (o *sessionsOptions) workerEntry(w tipstaff.WorkerSession) sessionEntry {
	s := sessionEntry{
		Kind: kindWorker, Session: w.ID, User: w.User, State: string(w.State), UpdatedAt: w.UpdatedAt, Model: w.Model, Worker: w.Worker, SessionID: w.SessionID,
		Task: w.Task, Run: w.Run, Path: w.Path, Dir: w.Dir, Cost: &w.Totals.CostUSD, Invocations: len(w.Invocations),
	}
	if i, ok := lastInvocation(w); ok {
		s.Event = cmp.Or(i.Outcome, o.lastLine(w, i))
		if w.Lease != nil && i.Ended.IsZero() {
			s.State, s.Pid = stateRunning, i.Identity.Pid
		}
	}
	s.Command = o.goesOn(w, s.State)
	return s
}

// ofTask are the ids of tasks that people have made; others are changed by their runs
// alone.
var ofTask = regexp.MustCompile(`^[0-9]{3,9}$`)

// goesOn is the command that goes on with a session; "": it is over.
func (o *sessionsOptions) goesOn(w tipstaff.WorkerSession, state string) string {
	switch own := ofTask.MatchString(w.Task); {
	case state == stateRunning:
		return o.invocation("watch", w.Run)
	case w.State == tipstaff.SessionClosed:
		return ""
	case own && w.State == tipstaff.SessionLost:
		return o.invocation("task", "resume", w.Task, "--fresh")
	case own:
		return o.invocation("task", "resume", w.Task)
	}
	return o.invocation("resume", w.Run)
}

func lastInvocation(w tipstaff.WorkerSession) (tipstaff.SessionInvocation, bool) {
	if len(w.Invocations) == 0 {
		return tipstaff.SessionInvocation{}, false
	}
	return w.Invocations[len(w.Invocations)-1], true
}

// logFile is a file of an invocation: they lie beside the private folder of the session.
func (o *sessionsOptions) logFile(w tipstaff.WorkerSession, i tipstaff.SessionInvocation, suffix string) string {
	dir := filepath.Dir(filepath.Clean(w.Folder))
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(o.workspaceDir(), dir)
	}
	return filepath.Join(dir, i.ID+suffix)
}

// lastLine is how the readable log of an invocation ends; "": there is none.
func (o *sessionsOptions) lastLine(w tipstaff.WorkerSession, i tipstaff.SessionInvocation) string {
	f, err := os.Open(o.logFile(w, i, ".log"))
	if err != nil {
		return ""
	}
	defer f.Close()
	const tail = 4 << 10
	if info, err := f.Stat(); err == nil && info.Size() > tail {
		_, _ = f.Seek(-tail, io.SeekEnd) // else the beginning is read
	}
	text, _ := io.ReadAll(io.LimitReader(f, tail))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return firstWords(lines[len(lines)-1])
}

// show prints one session.
func (o *sessionsOptions) show(ctx context.Context, ref string) error {
	svc, err := o.open(ctx, toRead)
	if err != nil {
		return err
	}
	var workers []tipstaff.WorkerSession
	if o.kind != kindChat && ref != "@" {
		if workers, err = o.workers(ctx, tipstaff.SessionQuery{Prefix: strings.ToUpper(ref), All: true}); err != nil {
			return err
		}
	}
	switch {
	case len(workers) == 1:
		return o.showWorker(workers[0])
	case len(workers) > 1:
		return tipstaff.Errorf(tipstaff.InvalidArgument, "more than one session begins with %s", clean(ref)).
			WithHint("give more of the id, for example %s or %s", workers[0].ID, workers[1].ID)
	case o.kind == kindWorker || o.raw || o.log:
		return tipstaff.Errorf(tipstaff.InvalidArgument, "there is no session %q of a worker", ref).WithHint("`tipstaff sessions --kind worker --all` lists them")
	}
	last, err := findSession(ctx, svc, ref)
	if err != nil {
		return err
	}
	s := o.chatEntry(ctx, svc, last)
	if o.json {
		return o.writeJSON(s)
	}
	o.printFields(
		field{"session", s.Session}, field{"agent", s.Agent}, field{"model", s.Model}, field{"turns", fmt.Sprint(s.Turns)}, field{"state", s.State},
		field{"last used", s.UpdatedAt.UTC().Format(time.DateTime)}, field{"last run", s.Last.String()}, field{"to go on", s.Command},
	)
	fmt.Fprintln(o.out)
	return (&showOptions{app: o.app}).printConversation(ctx, svc, last)
}

// showWorker prints a session of a worker with the log of its last invocation, or a file
// of that alone.
func (o *sessionsOptions) showWorker(w tipstaff.WorkerSession) error {
	i, begun := lastInvocation(w)
	switch {
	case (o.raw || o.log) && !begun:
		return tipstaff.Errorf(tipstaff.InvalidArgument, "session %s has had no invocation yet", w.ID)
	case o.raw:
		return o.printFile(o.logFile(w, i, ".jsonl"), false)
	case o.log:
		return o.printFile(o.logFile(w, i, ".log"), false)
	case o.json:
		return o.writeJSON(w)
	}
	s := o.workerEntry(w)
	fields := []field{
		{"session", w.ID}, {"worker", tipstaff.Joined(" ", w.Worker, w.CLIVersion)}, {"its own id", w.SessionID}, {"state", s.State}, {"posture", w.Posture}, {"model", w.Model},
		{"task", w.Task}, {"run", w.Run}, {"path", w.Path}, {"folder", w.Dir}, {"host", w.Host}, {"cost", "$" + w.Totals.CostUSD.String()},
		{"last used", s.UpdatedAt.UTC().Format(time.DateTime)}, {"to go on", s.Command},
	}
	for _, i := range w.Invocations {
		took := ""
		if !i.Ended.IsZero() {
			took = human(i.Ended.Sub(i.Started))
		}
		fields = append(fields, field{"invocation", tipstaff.Joined("  ", i.ID, i.Started.UTC().Format(time.DateTime), took, cmp.Or(i.Outcome, "not ended"))})
	}
	o.printFields(fields...)
	if !begun {
		return nil
	}
	fmt.Fprintln(o.out)
	return o.printFile(o.logFile(w, i, ".log"), true)
}

// printFile prints a log. A terminal gets nothing that would paint on it; a pipe gets the
// very bytes.
func (o *sessionsOptions) printFile(name string, mayMiss bool) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		if mayMiss {
			return nil
		}
		return tipstaff.Errorf(tipstaff.ArtifactNotFound, "there is no file %s: the invocation has printed nothing, or it was removed", name)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if !o.env.StdoutTTY {
		_, err = io.Copy(o.out, f)
		return err
	}
	text, err := io.ReadAll(f)
	if err == nil {
		_, err = io.WriteString(o.out, cleanLines(string(text)))
	}
	return err
}
