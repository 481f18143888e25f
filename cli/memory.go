package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

// memoryOptions are shared by the commands about the memory.
type memoryOptions struct{ *app }

func newMemory(a *app) *cobra.Command {
	o := &memoryOptions{app: a}
	cmd := &cobra.Command{
		Use:   "memory",
		Short: "What is remembered from run to run",
		Long: `Every leaf of a plan that ends is remembered, and so is what you say should be.
Items that runs relied on and that did well weigh more from then on.

ITEM is cortex://<type>/<id>, as memory list prints it.`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMemoryList(o), newMemoryShow(o), newMemoryRecall(o), newMemoryWeights(o), newMemoryLog(o),
		newMemoryRemember(o), newMemoryForget(o), newMemoryRebuild(o))
	return cmd
}

// openMemory is the workspace's Memory.
func (a *app) openMemory(ctx context.Context, readOnly bool) (tipstaff.Memory, error) {
	if _, err := a.open(ctx, readOnly); err != nil {
		return nil, err
	}
	if a.server != "" {
		return nil, &usageError{message: "the memory is that of a workspace of this machine, and --server names another"}
	}
	return a.session.Memory(), nil
}

// memoryWork is what a command does with the memory.
type memoryWork func(ctx context.Context, m tipstaff.Memory, args []string) error

func (o *memoryOptions) reads(w memoryWork) func(*cobra.Command, []string) error {
	return o.works(true, w)
}
func (o *memoryOptions) writes(w memoryWork) func(*cobra.Command, []string) error {
	return o.works(false, w)
}

func (o *memoryOptions) works(readOnly bool, w memoryWork) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		m, err := o.openMemory(cmd.Context(), readOnly)
		if err != nil {
			return err
		}
		return w(cmd.Context(), m, args)
	}
}

func newMemoryList(o *memoryOptions) *cobra.Command {
	q := tipstaff.MemoryQuery{}
	cmd := &cobra.Command{
		Use:               "list",
		Short:             "List items, newest first",
		Example:           "  tipstaff memory list --type fact\n  tipstaff memory list --json | head -1",
		Args:              needs(),
		ValidArgsFunction: completed(o.app),
		RunE: o.reads(func(ctx context.Context, m tipstaff.Memory, _ []string) error {
			items, err := m.Items(ctx, q)
			return o.printItems(items, err, false)
		}),
	}
	cmd.Flags().StringVar(&q.Type, "type", "", "only items of this `type`: identity, fact, preference, belief, event, goal, constraint, capability or pattern")
	cmd.Flags().IntVar(&q.Limit, "limit", 50, "at most so many; 0 is all")
	return cmd
}

func newMemoryRecall(o *memoryOptions) *cobra.Command {
	var req tipstaff.RecallRequest
	cmd := &cobra.Command{
		Use:   "recall",
		Short: "Show what would be recalled for a piece of work",
		Long: `Show the eight best items that share a skill, a verb or a server with the work
to be done, or that are about everything, best first. Nothing is changed by it.`,
		Example:           "  tipstaff memory recall --server builtin\n  tipstaff memory recall --verb build --json",
		Args:              needs(),
		ValidArgsFunction: completed(o.app),
		RunE: o.reads(func(ctx context.Context, m tipstaff.Memory, _ []string) error {
			items, err := m.Recall(ctx, req)
			return o.printItems(items, err, true)
		}),
	}
	aboutFlags(cmd, &req.Skill, &req.Verb, &req.Server)
	return cmd
}

// aboutFlags are what an item, or a piece of work, is about.
func aboutFlags(cmd *cobra.Command, skill, verb, server *string) {
	cmd.Flags().StringVar(skill, "skill", "", "the skill it is about, as plans name it")
	cmd.Flags().StringVar(verb, "verb", "", "the verb of the intents it is about: build, find …")
	cmd.Flags().StringVar(server, "server", "", "the tool server it is about")
}

// printItems prints one row for each item, or one line of JSON.
func (o *memoryOptions) printItems(items []tipstaff.MemoryItem, err error, scored bool) error {
	if err != nil {
		return err
	}
	if len(items) == 0 && !o.json {
		fmt.Fprintln(o.err, "nothing is remembered about that")
	}
	for _, m := range items {
		if o.json {
			if err := o.writeJSON(m); err != nil {
				return err
			}
			continue
		}
		o.printItem(m, scored)
	}
	return nil
}

// printItem keeps an item on one row of a terminal; a pipe gets all of it.
func (o *memoryOptions) printItem(m tipstaff.MemoryItem, scored bool) {
	row := fmt.Sprintf("%s  %s  %s", clean(m.Item), m.CreatedAt.UTC().Format(time.DateTime), clean(m.Text))
	if scored {
		row = fmt.Sprintf("%s  %s  %s", m.Score, clean(m.Item), clean(m.Text))
	}
	if o.env.StdoutTTY {
		width, _ := o.env.size()
		row = fit(row, width)
	}
	fmt.Fprintln(o.out, row)
}

func newMemoryShow(o *memoryOptions) *cobra.Command {
	return &cobra.Command{
		Use:               "show ITEM",
		Short:             "Show an item and what it is worth",
		Example:           "  tipstaff memory show cortex://fact/01JCQ8R4T5V6W7X8Y9Z0A1B2C3",
		Args:              needs("ITEM"),
		ValidArgsFunction: completed(o.app, completeItem),
		RunE: o.reads(func(ctx context.Context, m tipstaff.Memory, args []string) error {
			item, err := m.Item(ctx, args[0])
			return o.showItem(item, err)
		}),
	}
}

func (o *memoryOptions) showItem(m tipstaff.MemoryItem, err error) error {
	if err != nil {
		return err
	}
	if o.json {
		return o.writeJSON(m)
	}
	about := tipstaff.Joined(", ", named("skill ", m.Skill), named("verb ", m.Verb), named("server ", m.Server))
	if about == "" {
		about = "everything"
	}
	standing := ""
	switch {
	case m.Forgotten:
		standing = "forgotten"
	case m.Pinned:
		standing = "pinned"
	}
	o.printFields([]field{
		{"item", m.Item}, {"text", m.Text}, {"about", about}, {"importance", fmt.Sprint(m.Importance)}, {"standing", standing},
		{"score", m.Score.String()}, {"accesses", fmt.Sprint(m.Accesses)}, {"citations", fmt.Sprint(m.Citations)},
		{"created", m.CreatedAt.UTC().Format(time.DateTime)}, {"last used", m.LastUsedAt.UTC().Format(time.DateTime)}, {"by", m.By},
		{"run", m.Run.String()}, {"path", m.Path}, {"kind", m.Kind}, {"tool", m.Tool}, {"outcome", m.Outcome}, {"digest", m.Digest},
	})
	return nil
}

// named is a value with its name before it; "" for none.
func named(name, value string) string {
	if value == "" {
		return ""
	}
	return name + value
}

func newMemoryWeights(o *memoryOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "weights",
		Short: "Show what counts for the worth of an item",
		Long: `Show the weights by which items are ranked. They move a little with every run
that ends well, or that fails because what it relied on was wrong.`,
		Args:              needs(),
		ValidArgsFunction: completed(o.app),
		RunE: o.reads(func(ctx context.Context, m tipstaff.Memory, _ []string) error {
			w, err := m.Weights(ctx)
			if err != nil {
				return err
			}
			if o.json {
				return o.writeJSON(w)
			}
			o.printWeights(w)
			return nil
		}),
	}
}

func (o *memoryOptions) printWeights(w tipstaff.MemoryWeights) {
	o.printFields([]field{
		{"R", w.R.String() + "  recency"}, {"A", w.A.String() + "  accesses"}, {"C", w.C.String() + "  citations"},
		{"D", w.D.String() + "  declared importance"}, {"V", w.V.String() + "  nearness of vectors; not learned"},
	})
}

func newMemoryLog(o *memoryOptions) *cobra.Command {
	after := int64(0)
	cmd := &cobra.Command{
		Use:               "log",
		Short:             "Print the log that everything remembered follows from",
		Long:              "Print the memory's log in order. With --json it is the stored bytes, one record a line.",
		Example:           "  tipstaff memory log --after 12\n  tipstaff memory log --json | jq .kind",
		Args:              needs(),
		ValidArgsFunction: completed(o.app),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if after < 0 {
				return &usageError{message: "--after cannot be negative", hint: "0 is before the first record"}
			}
			m, err := o.openMemory(cmd.Context(), true)
			if err != nil {
				return err
			}
			for r, err := range m.Log(cmd.Context(), after) {
				if err == nil {
					err = o.printMemoryRecord(r)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().Int64Var(&after, "after", 0, "only records after this `seq`")
	return cmd
}

func (o *memoryOptions) printMemoryRecord(r tipstaff.MemoryRecord) error {
	if o.json {
		return o.writeLine(r.Raw)
	}
	_, err := fmt.Fprintf(o.out, "%5d  %s  %-13s  %s\n", r.Seq, r.At.UTC().Format(time.DateTime), clean(r.Kind), clean(tipstaff.Joined("  ", r.Run.String(), r.Text)))
	return err
}

func newMemoryRemember(o *memoryOptions) *cobra.Command {
	var req tipstaff.RememberRequest
	cmd := &cobra.Command{
		Use:   "remember TYPE TEXT",
		Short: "Keep an item",
		Long: `Keep an item. TYPE is identity, fact, preference, belief, goal, constraint,
capability or pattern; events are kept by runs. An item that is about no skill,
verb or server is about everything.`,
		Example: `  tipstaff memory remember preference "Release notes are in British English" --pin
  tipstaff memory remember fact "The staging host is down on Mondays" --server deploy --importance 8`,
		Args:              needs("TYPE", "TEXT"),
		ValidArgsFunction: completed(o.app, completeType),
		RunE: o.writes(func(ctx context.Context, m tipstaff.Memory, args []string) error {
			req.Type, req.Text = args[0], args[1]
			item, err := m.Remember(ctx, req)
			return o.told("remembered", item, err)
		}),
	}
	cmd.Flags().IntVar(&req.Importance, "importance", 5, "from 0 to 10")
	cmd.Flags().BoolVar(&req.Pinned, "pin", false, "worth at least 0.7, however old it gets")
	aboutFlags(cmd, &req.Skill, &req.Verb, &req.Server)
	return cmd
}

func newMemoryForget(o *memoryOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "forget ITEM",
		Short: "Take an item out of use",
		Long: `Take an item out of use: it is not listed, recalled or counted any more. Its record
stays in the log, which is never shortened. To forget it again changes nothing.`,
		Args:              needs("ITEM"),
		ValidArgsFunction: completed(o.app, completeItem),
		RunE: o.writes(func(ctx context.Context, m tipstaff.Memory, args []string) error {
			item, err := m.Forget(ctx, args[0])
			return o.told("forgotten", item, err)
		}),
	}
}

// told says what was done with an item.
func (o *memoryOptions) told(what string, m tipstaff.MemoryItem, err error) error {
	if err != nil {
		return err
	}
	if o.json {
		return o.writeJSON(m)
	}
	_, err = fmt.Fprintf(o.out, "%s %s\n", what, clean(m.Item))
	return err
}

func newMemoryRebuild(o *memoryOptions) *cobra.Command {
	check := false
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Derive items and weights from the log again",
		Long: `Derive items and weights from the log again, and put right what differs. Nothing
is derived from a log that is not whole. Exit code 6: something is wrong that
could not be put right, or with --check, anything.`,
		Args:              needs(),
		ValidArgsFunction: completed(o.app),
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := o.openMemory(cmd.Context(), check)
			if err != nil {
				return err
			}
			report, err := m.Rebuild(cmd.Context(), check)
			if err != nil {
				return err
			}
			return o.reportMemory(report)
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "change nothing")
	return cmd
}

// reportMemory prints what a rebuild found, and is its exit code.
func (a *app) reportMemory(r tipstaff.MemoryReport) error {
	if a.json {
		if err := a.writeJSON(r); err != nil {
			return err
		}
	} else {
		a.printMemoryReport(r)
	}
	if !r.OK() {
		return status(exitIntegrity)
	}
	return nil
}

func (a *app) printMemoryReport(r tipstaff.MemoryReport) {
	rebuilt := ""
	if r.Rebuilt > 0 {
		rebuilt = plural(r.Rebuilt, "row") + " put right"
	}
	a.printFields([]field{
		{"memory", fmt.Sprintf("%s, %s, %s", plural(int(r.Seq), "record"), plural(r.Items, "item"), plural(r.Attests, "ended run"))},
		{"head", r.Head},
		{"rebuilt", rebuilt},
	})
	a.printFinding("log", r.Log)
	a.printFinding("state", r.State)
}

func completeItem(a *app, cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	m, err := a.openMemory(cmd.Context(), true)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	items, err := m.Items(cmd.Context(), tipstaff.MemoryQuery{Limit: 100})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, item := range items {
		if strings.HasPrefix(item.Item, typed) {
			names = append(names, cobra.CompletionWithDesc(item.Item, clean(item.Text)))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

func completeType(*app, *cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"identity", "fact", "preference", "belief", "goal", "constraint", "capability", "pattern"}, cobra.ShellCompDirectiveNoFileComp
}
