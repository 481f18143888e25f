package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/tipstaff/tipstaff"
)

// Env is what cmd hands over: the terminal, and the choices only cmd may make.
type Env struct {
	Stdin                          io.Reader
	Stdout, Stderr                 io.Writer
	StdinTTY, StdoutTTY, StderrTTY bool
	StdinPiped                     bool // it is a pipe or a file: what it holds belongs to what is said

	// Size is the terminal's width and height in cells; nil, or a zero answer, is
	// 80 by 24. It is asked before every frame.
	Size func() (width, height int)
	// Getenv reads the environment; nil: there is none.
	Getenv func(string) string
	// History is the file with what a person has typed at prompts. "": nothing is kept.
	History string
	// Raw has the terminal of Stdin send every key at once, and echo none, until
	// restore is called. nil: it cannot.
	Raw func() (restore func(), err error)

	// EchoOff has the terminal of Stdin echo nothing until restore is called, also by way
	// of a stop, and of a signal that ends the process. nil: it cannot.
	EchoOff func() (restore func(), err error)

	// OnInterrupt has f asked, until release is called, whether an interrupt is dealt
	// with: if not, it stops the process as usual. nil: interrupts are nobody's.
	OnInterrupt func(f func() bool) (release func())
	// Interrupt stops the process as a signal does that nobody has dealt with.
	Interrupt func()

	// Open opens the workspace's runs. It is called at most once, and not at all
	// by commands that need none: help, version, completion scripts.
	Open func(context.Context, OpenOptions) (Session, error)
	// Within tells the runs of the workspace that is open of which this process is one: it
	// decides none. nil: of none.
	Within func() []string
	// Connect turns to the runs of a server. A token of the workspace's own server is
	// found in the workspace.
	Connect func(ctx context.Context, server, workspace string) (Session, error)
	// Export writes a run to a folder that verifies on its own.
	Export func(ctx context.Context, svc tipstaff.Service, run tipstaff.ID, dir string) error
	// Backup copies a workspace's store to a new folder. It changes nothing in it.
	Backup func(ctx context.Context, workspace, dest string) (tipstaff.Backup, error)
	// CopyStore copies the runs of a store to another that has none: all of them, checked,
	// or nothing. Each is a folder or the address of a database.
	CopyStore func(ctx context.Context, o OpenOptions, from, to string) (tipstaff.StoreCopy, error)
	// Doctor says what is wrong with a workspace and its store. It changes nothing.
	Doctor func(context.Context, OpenOptions) ([]tipstaff.Diagnostic, error)
	// Classifier compares plans by the manifest of a workspace. It opens nothing.
	Classifier func(workspace string) (tipstaff.Classifier, error)
	// Skills looks after the skills of a workspace. It opens no store.
	Skills func(OpenOptions) (tipstaff.Skills, error)
	// Starter returns the files that a workspace begins with, and what they use.
	Starter func(context.Context, StarterOptions) (Starter, error)
	// Trust keeps which workspaces their user trusts. nil: all are.
	Trust Trust
	// Tools looks after the tools of a workspace. It opens no store.
	Tools func(workspace string) (tipstaff.Tools, error)
	// ListWorkers is every worker of a workspace, by name: also those whose CLI is not
	// installed. CLIs are started with --version alone.
	ListWorkers func(ctx context.Context, workspace string) ([]tipstaff.WorkerInfo, error)
	// CheckWorkers looks closer at workers by these names; none: at all. CLIs are started
	// with --version and --help alone. An unknown name is worker_unknown.
	CheckWorkers func(ctx context.Context, workspace string, names []string) ([]tipstaff.WorkerCheck, error)
	// IsPipeline tells the source of a pipeline from that of a plan. nil: nothing is one.
	IsPipeline func(program []byte) bool
	// PipelineSchema is the JSON Schema of pipelines.
	PipelineSchema []byte
	// Serve serves a workspace to other programs until ctx ends. announce is told where
	// it listens, once it does.
	Serve func(ctx context.Context, o ServeOptions, announce func(Listening) error) error
	// SigninLink asks the daemon that listens at the address of o for a link to its page.
	SigninLink func(ctx context.Context, o ServeOptions) (SigninLink, error)
	// ServeToken is the token that a workspace has made for its daemon; rotate makes another
	// first, and the one before is refused from then on.
	ServeToken func(workspace string, rotate bool) (string, error)
	// MCP serves the runs of a workspace to MCP clients, until ctx ends or the client does.
	// announce is told where it listens, over HTTP.
	MCP func(ctx context.Context, o MCPOptions, announce func(Listening) error) error
	// RunClient runs a program that is on PATH in a folder, with what it says going to our
	// standard error, and returns its exit code. err: it cannot be started.
	RunClient func(ctx context.Context, dir string, argv []string) (code int, err error)
	// EndToEnd tries this build of Tipstaff, in a folder of its own.
	EndToEnd func(context.Context, EndToEndOptions) (EndToEndReport, error)
	// Approve answers approvals of a turn from what tools declare, where no person is to
	// be asked.
	Approve tipstaff.Ask

	Version VersionInfo
}

// StarterOptions says what a workspace is begun with.
type StarterOptions struct {
	Workspace string
	Agent     bool     // an agent, also where no key of a vendor of models is set
	Worker    string   // type of the worker that makes changes; "": a scripted one, in a repository
	Python    bool     // stages that are functions of a Python program
	Server    []string // the command of an MCP server; none: there is none
}

// Starter is what a workspace begins with.
type Starter struct {
	Files   []StarterFile
	Server  string   // the name of the MCP server; "": there is none
	Model   string   // what the agent talks to; "": there is no agent
	Key     string   // the variable with that model's key, or one that would let an agent talk
	Missing bool     // Key is not set
	Worker  string   // type of the worker that makes changes; "": the workspace is in no repository
	Workers []string // types of workers whose CLI is on PATH
	// Unborn says that the repository has no commit, which a change would begin at.
	Unborn bool
}

// StarterFile is a file that a workspace begins with.
type StarterFile struct {
	Name string
	Text []byte
}

// OpenOptions says which workspace is opened, and what for.
type OpenOptions struct {
	Workspace string // a folder
	Store     string // the address of a database with its runs; "": they are in the folder
	Blobs     string // the address of a bucket for large payloads of that database; "": it has them
	Engine    string // the address of what schedules the drives of those; "": servers do
	ReadOnly  bool   // the command only looks: nothing must be created
	Starts    bool   // it starts a run: nothing must be created before its program has passed
	Skills    string // the folder of skills; "": the workspace's own
	Policy    string // a file whose policy takes the place of the manifest's; "": that holds
	MaxRuns   int    // how many runs may have a process of their own; 0: the usual number
	// Warnings is told what is wrong and does not stop a command that only looks. nil: nobody is.
	Warnings io.Writer
	// Execute is the run that this process was launched to drive, with the token that it
	// was given; "": none.
	Execute, Launch string
}

// Session is an open workspace.
type Session interface {
	Service() tipstaff.Service
	Memory() tipstaff.Memory
	// Sessions are those of workers; nil: they are not known here.
	Sessions() tipstaff.Sessions
	Tasks() tipstaff.Tasks
	// Attach lets hosts of agents attach to this process while it drives the run, and
	// keeps those running that commands name. tell is given what they print, by line.
	Attach(run tipstaff.ID, commands []string, tell func(line string)) (Attached, error)
	// Changed signals whenever a run has come, or stands elsewhere than before, until stop.
	// A nil channel: nobody here is told.
	Changed() (changed <-chan struct{}, stop func())
	// Page is the address of the page that shows these runs; "": there is none.
	Page() string
	// Exit keeps how the process ends that was launched to drive a run.
	Exit(code int, problem error) error
	Close() error
}

// VersionInfo is what `tipstaff version` prints.
type VersionInfo struct {
	Version   string    `json:"version"`
	Commit    string    `json:"commit"`             // "": the build does not know
	Date      string    `json:"date,omitempty"`     // of the commit, in RFC 3339
	Modified  bool      `json:"modified,omitempty"` // files differed from the commit
	Go        string    `json:"go"`
	OS        string    `json:"os"`
	Arch      string    `json:"arch"`
	Formats   Formats   `json:"formats"`
	Protocols Protocols `json:"protocols"`
}

// Formats are the newest that the binary writes. It reads all earlier ones.
type Formats struct {
	Journal  int `json:"journal"`  // of records
	Rules    int `json:"rules"`    // under which runs are made, driven and verified
	SQLite   int `json:"sqlite"`   // of the store in a folder
	Postgres int `json:"postgres"` // of the store in a database
}

// Protocols are what servers of the binary speak.
type Protocols struct {
	GRPC []string `json:"grpc"` // packages
	HTTP string   `json:"http"` // version of the API
	MCP  []string `json:"mcp"`  // revisions
}

// SignalError is the cause with which cmd cancels the context of [Main] when a
// signal asks the process to stop.
type SignalError struct{ Signal os.Signal }

func (e *SignalError) Error() string { return "interrupted by " + e.Signal.String() }

// FromOS is an Env on the streams of this process; Open and the fields after it
// are left to the caller.
//
// It also takes SIGPIPE: by default Go ends a process that writes to a closed
// standard output, and with it the run that the process drives.
func FromOS() *Env {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return &Env{
		Stdin: terminalInput(os.Stdin), Stdout: os.Stdout, Stderr: os.Stderr,
		StdinTTY: isTerminal(os.Stdin), StdoutTTY: isTerminal(os.Stdout), StderrTTY: isTerminal(os.Stderr),
		StdinPiped: isPiped(os.Stdin),

		Size:    terminalSize,
		Getenv:  os.Getenv,
		Raw:     func() (func(), error) { return rawMode(os.Stdin) },
		EchoOff: func() (func(), error) { return echoOff(os.Stdin) },
	}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func isPiped(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0)
}

func terminalSize() (width, height int) {
	for _, f := range []*os.File{os.Stderr, os.Stdout} {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil {
			return w, h
		}
	}
	return 0, 0
}

func (e *Env) size() (width, height int) {
	if e.Size != nil {
		width, height = e.Size()
	}
	if width <= 0 {
		width = 80
	}
	if height <= 0 {
		height = 24
	}
	return width, height
}

func (e *Env) isPipeline(program []byte) bool { return e.IsPipeline != nil && e.IsPipeline(program) }

func (e *Env) getenv(name string) string {
	if e.Getenv == nil {
		return ""
	}
	return e.Getenv(name)
}
