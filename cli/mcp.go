package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

// MCPOptions are what the control plane for MCP clients is started with.
type MCPOptions struct {
	Workspace string // as the command line names it; "": TIPSTAFF_WORKSPACE, else this folder if it is one
	Store     string // the address of a database with its runs; "": they are in the folder
	Blobs     string // the address of a bucket for large payloads of that database; "": it has them
	Engine    string // as in OpenOptions
	HTTP      string // address; "": standard input and output
	ReadOnly  bool
	Decide    bool     // the client on standard input and output may decide gates
	AllowDirs []string // folders beside the workspace that requests may name
	MaxRuns   int      // runs with a process of their own; 0: as many as usual
	JSON      bool     // of the log
}

type mcpOptions struct {
	MCPOptions
	*app
	config  string
	write   bool
	maxRuns string
}

func newMCP(a *app) *cobra.Command {
	o := &mcpOptions{app: a}
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Let MCP clients start, follow, decide and inspect runs",
		Long: `Serve the runs of a workspace to an MCP client (Claude Code, Cursor, Codex, Gemini,
OpenCode …) on standard input and output, or over HTTP. Runs that it starts have
processes of their own: they go on when the client and this server have ended.
Gates are yours: on standard input and output a client starts, follows and inspects
runs, and decides nothing without --decide. Over HTTP tokens say who may do what.

The workspace is --workspace, else $TIPSTAFF_WORKSPACE, else the current folder if it
has a tipstaff.yaml or .tipstaff. Without one the server starts, and its tools say so.

With --config it serves nothing: it prints the configuration of a client for this
workspace. With --write the client's own command adds it; where there is no such
command, the text is printed and the exit code is 3.`,
		Example: `  tipstaff mcp --config claude
  tipstaff mcp --config claude --write
  tipstaff mcp --workspace ~/project --read-only
  tipstaff mcp --http 127.0.0.1:8090`,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return o.check(cmd) },
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.HTTP, "http", "", "serve streamable HTTP at this `address`, path /mcp, instead of standard input and output")
	f.BoolVar(&o.ReadOnly, "read-only", false, "offer only the tools that change nothing")
	f.BoolVar(&o.Decide, "decide", false, "let the client decide gates too")
	f.StringArrayVar(&o.AllowDirs, "allow-dir", nil, "a `folder` beside the workspace that requests may name too; may be repeated")
	f.StringVar(&o.maxRuns, "max-runs", "", "refuse to start a run if `n` of them have a process already (default $TIPSTAFF_MAX_RUNS, else 4)")
	f.StringVar(&o.config, "config", "", "print the configuration of a `client`: "+strings.Join(mcpClientNames(), ", "))
	f.BoolVar(&o.write, "write", false, "with --config: have the client's own command add it")
	_ = cmd.MarkFlagDirname("allow-dir") // fails only for a flag that is not there
	_ = cmd.RegisterFlagCompletionFunc("config", cobra.FixedCompletions(mcpClientNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *mcpOptions) check(cmd *cobra.Command) error {
	switch {
	case cmd.Flags().Changed("config") && !slices.Contains(mcpClientNames(), o.config):
		return &usageError{message: fmt.Sprintf("--config %s is not a client that is known%s", tipstaff.ShellWord(o.config), tipstaff.DidYouMean(o.config, mcpClientNames())), hint: "it is one of " + strings.Join(mcpClientNames(), ", ")}
	case o.Decide && o.ReadOnly:
		return &usageError{message: "--decide and --read-only exclude each other: a decision changes a run"}
	case o.Decide && o.config != "":
		return &usageError{message: "--config is for a client that decides nothing: --decide does not go with it", hint: "write --decide after the word mcp in what --config prints"}
	case o.Decide && o.HTTP != "":
		return &usageError{message: "--decide is for standard input and output: over HTTP a token says what its bearer may do", hint: "give the token the scope decide, under serve.tokens in tipstaff.yaml"}
	case o.write && o.config == "":
		return &usageError{message: "--write goes with --config"}
	case o.config != "" && o.HTTP != "":
		return &usageError{message: "--config is for clients that start the server themselves: --http does not go with it"}
	case o.HTTP != "" && !loopbackAddress(o.HTTP):
		return &usageError{message: fmt.Sprintf("--http %s is not an address of this machine", tipstaff.ShellWord(o.HTTP)),
			hint: "write 127.0.0.1:PORT, or unix:PATH; tipstaff serve serves /mcp to others, with TLS"}
	case o.server != "":
		return &usageError{message: "the control plane has the runs of a workspace, not those of a server", hint: "leave out --server and TIPSTAFF_SERVER"}
	}
	return nil
}

func (o *mcpOptions) run(ctx context.Context) (err error) {
	if o.MaxRuns, err = MaxRuns(o.maxRuns, o.env.getenv); err != nil {
		return err
	}
	if o.config == "" {
		o.Workspace, o.JSON = o.workspace, o.json
		o.Store, o.Blobs, o.Engine = o.storeAddress(), o.blobsAddress(), o.engineAddress()
		return o.env.MCP(ctx, o.MCPOptions, o.announceMCP)
	}
	argv, err := o.argv()
	if err != nil {
		return err
	}
	return o.configure(ctx, argv)
}

// argv is the command with which a client starts the server.
func (o *mcpOptions) argv() ([]string, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	argv := []string{binary, "mcp"}
	for _, d := range append([]string{o.workspaceDir()}, o.AllowDirs...) {
		flag := "--allow-dir"
		if len(argv) == 2 {
			flag = "--workspace"
		}
		if d, err = filepath.Abs(d); err != nil {
			return nil, err
		}
		argv = append(argv, flag, d)
	}
	if o.ReadOnly {
		argv = append(argv, "--read-only")
	}
	if o.maxRuns != "" {
		argv = append(argv, "--max-runs", o.maxRuns)
	}
	return argv, nil
}

// loopbackAddress reports whether nobody elsewhere can reach an address.
func loopbackAddress(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return tipstaff.SocketPath(addr) != "" || err == nil && tipstaff.Loopback(host)
}

// announceMCP says where the control plane listens.
func (o *mcpOptions) announceMCP(l Listening) error {
	if o.json {
		return o.writeJSON(l)
	}
	_, err := fmt.Fprintf(o.out, "mcp http://%s/mcp\n", clean(l.Addr))
	if l.TokenFile != "" {
		fmt.Fprintf(o.err, "the token is in %s\n", clean(l.TokenFile))
	}
	return err
}
