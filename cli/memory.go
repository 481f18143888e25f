package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

func newMemory(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "memory",
		Short: "What is remembered from run to run",
		Long: `Every leaf of a plan that ends is remembered, and so is what you say should be.
Items that runs relied on and that did well weigh more from then on.

ITEM is cortex://<type>/<id>, as memory list prints it.`,
	}
	cmd.AddCommand(newMemoryList(a), newMemoryShow(a), newMemoryRecall(a), newMemoryWeights(a), newMemoryLog(a),
		newMemoryRemember(a), newMemoryForget(a), newMemoryRebuild(a))
	return cmd
}

// memory opens the workspace's Memory.
func (a *app) memory(o OpenOptions) func(context.Context) (tipstaff.Memory, error) {
	return func(ctx context.Context) (tipstaff.Memory, error) {
		if _, err := a.open(ctx, o); err != nil {
			return nil, err
		}
		return a.session.Memory(), nil
	}
}

func newMemoryList(a *app) *cobra.Command {
	q := tipstaff.MemoryQuery{}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List items, newest first",
		Example: "  tipstaff memory list --type fact\n  tipstaff memory list --json | head -1",
		RunE: with(a.memory(toRead), func(ctx context.Context, m tipstaff.Memory, _ []string) error {
			items, err := m.Items(ctx, q)
			if err != nil {
				return err
			}
			return printEach(a, items, nothingRemembered, func(m tipstaff.MemoryItem) {
				a.row("%s  %s  %s", clean(m.Item), m.CreatedAt.UTC().Format(time.DateTime), clean(m.Text))
			})
		}),
	}
	cmd.Flags().StringVar(&q.Type, "type", "", "only items of this `type`: identity, fact, preference, belief, event, goal, constraint, capability or pattern")
	cmd.Flags().IntVar(&q.Limit, "limit", 50, "at most so many; 0 is all")
	return cmd
}

const nothingRemembered = "nothing is remembered about that"

func newMemoryRecall(a *app) *cobra.Command {
	var req tipstaff.RecallRequest
	cmd := &cobra.Command{
		Use:   "recall",
		Short: "Show what would be recalled for a piece of work",
		Long: `Show the eight best items that share a skill, a verb or a server with the work
to be done, or that are about everything, best first. Nothing is changed by it.`,
		Example: "  tipstaff memory recall --server builtin\n  tipstaff memory recall --verb build --json",
		RunE: with(a.memory(toRead), func(ctx context.Context, m tipstaff.Memory, _ []string) error {
			items, err := m.Recall(ctx, req)
			if err != nil {
				return err
			}
			return printEach(a, items, nothingRemembered, func(m tipstaff.MemoryItem) {
				a.row("%s  %s  %s", m.Score, clean(m.Item), clean(m.Text))
			})
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

func newMemoryShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "show ITEM",
		Short:   "Show an item and what it is worth",
		Example: "  tipstaff memory show cortex://fact/01JCQ8R4T5V6W7X8Y9Z0A1B2C3",
		RunE: with(a.memory(toRead), func(ctx context.Context, m tipstaff.Memory, args []string) error {
			item, err := m.Item(ctx, args[0])
			if err != nil {
				return err
			}
			return a.print(item, func() { a.printFields(itemFields(item)...) })
		}),
	}
}

func itemFields(m tipstaff.MemoryItem) []field {
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
	return []field{
		{"item", m.Item}, {"text", m.Text}, {"about", about}, {"importance", fmt.Sprint(m.Importance)}, {"standing", standing},
		{"score", m.Score.String()}, {"accesses", fmt.Sprint(m.Accesses)}, {"citations", fmt.Sprint(m.Citations)},
		{"created", m.CreatedAt.UTC().Format(time.DateTime)}, {"last used", m.LastUsedAt.UTC().Format(time.DateTime)}, {"by", m.By},
		{"run", m.Run.String()}, {"path", m.Path}, {"kind", m.Kind}, {"tool", m.Tool}, {"outcome", m.Outcome}, {"digest", m.Digest},
	}
}

// named is a value with its name before it; "" for none.
func named(name, value string) string {
	if value == "" {
		return ""
	}
	return name + value
}

func newMemoryWeights(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "weights",
		Short: "Show what counts for the worth of an item",
		Long: `Show the weights by which items are ranked. They move a little with every run
that ends well, or that fails because what it relied on was wrong.`,
		RunE: with(a.memory(toRead), func(ctx context.Context, m tipstaff.Memory, _ []string) error {
			w, err := m.Weights(ctx)
			if err != nil {
				return err
			}
			return a.print(w, func() {
				a.printFields(field{"R", w.R.String() + "  recency"}, field{"A", w.A.String() + "  accesses"}, field{"C", w.C.String() + "  citations"},
					field{"D", w.D.String() + "  declared importance"}, field{"V", w.V.String() + "  nearness of vectors; not learned"})
			})
		}),
	}
}

func newMemoryLog(a *app) *cobra.Command {
	after := int64(0)
	cmd := &cobra.Command{
		Use:     "log",
		Short:   "Print the log that everything remembered follows from",
		Long:    "Print the memory's log in order. With --json it is the stored bytes, one record a line.",
		Example: "  tipstaff memory log --after 12\n  tipstaff memory log --json | jq .kind",
		PreRunE: func(*cobra.Command, []string) error { return checkAfter(after) },
		RunE: with(a.memory(toRead), func(ctx context.Context, m tipstaff.Memory, _ []string) error {
			for r, err := range m.Log(ctx, after) {
				switch {
				case err != nil:
				case a.json:
					err = a.writeLine(r.Raw)
				default:
					_, err = fmt.Fprintf(a.out, "%5d  %s  %-13s  %s\n", r.Seq, r.At.UTC().Format(time.DateTime), clean(r.Kind),
						clean(tipstaff.Joined("  ", r.Run.String(), r.Text)))
				}
				if err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().Int64Var(&after, "after", 0, "only records after this `seq`")
	return cmd
}

func newMemoryRemember(a *app) *cobra.Command {
	var req tipstaff.RememberRequest
	cmd := &cobra.Command{
		Use:   "remember TYPE TEXT",
		Short: "Keep an item",
		Long: `Keep an item. TYPE is identity, fact, preference, belief, goal, constraint,
capability or pattern; events are kept by runs. An item that is about no skill,
verb or server is about everything.`,
		Example: `  tipstaff memory remember preference "Release notes are in British English" --pin
  tipstaff memory remember fact "The staging host is down on Mondays" --server deploy --importance 8`,
		RunE: with(a.memory(toWrite), func(ctx context.Context, m tipstaff.Memory, args []string) error {
			req.Type, req.Text = args[0], args[1]
			item, err := m.Remember(ctx, req)
			return a.told("remembered", item, err)
		}),
	}
	cmd.Flags().IntVar(&req.Importance, "importance", 5, "from 0 to 10")
	cmd.Flags().BoolVar(&req.Pinned, "pin", false, "worth at least 0.7, however old it gets")
	aboutFlags(cmd, &req.Skill, &req.Verb, &req.Server)
	return cmd
}

func newMemoryForget(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "forget ITEM",
		Short: "Take an item out of use",
		Long: `Take an item out of use: it is not listed, recalled or counted any more. Its record
stays in the log, which is never shortened. To forget it again changes nothing.`,
		RunE: with(a.memory(toWrite), func(ctx context.Context, m tipstaff.Memory, args []string) error {
			item, err := m.Forget(ctx, args[0])
			return a.told("forgotten", item, err)
		}),
	}
}

// told says what was done with an item.
func (a *app) told(what string, m tipstaff.MemoryItem, err error) error {
	if err != nil {
		return err
	}
	return a.print(m, func() { fmt.Fprintf(a.out, "%s %s\n", what, clean(m.Item)) })
}

func newMemoryRebuild(a *app) *cobra.Command {
	check := false
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Derive items and weights from the log again",
		Long: `Derive items and weights from the log again, and put right what differs. Nothing
is derived from a log that is not whole. Exit code 6: something is wrong that
could not be put right, or with --check, anything.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.rebuildMemory(cmd.Context(), check) },
	}
	cmd.Flags().BoolVar(&check, "check", false, "change nothing")
	return cmd
}

// rebuildMemory prints what a rebuild finds, and is its exit code. To check changes
// nothing.
func (a *app) rebuildMemory(ctx context.Context, check bool) error {
	m, err := a.memory(OpenOptions{ReadOnly: check})(ctx)
	if err != nil {
		return err
	}
	r, err := m.Rebuild(ctx, check)
	if err != nil {
		return err
	}
	err = a.print(r, func() {
		rebuilt := ""
		if r.Rebuilt > 0 {
			rebuilt = plural(r.Rebuilt, "row") + " put right"
		}
		a.printFields(
			field{"memory", fmt.Sprintf("%s, %s, %s", plural(int(r.Seq), "record"), plural(r.Items, "item"), plural(r.Attests, "ended run"))},
			field{"head", r.Head}, field{"rebuilt", rebuilt})
		a.printFinding("log", r.Log)
		a.printFinding("state", r.State)
	})
	if err == nil && !r.OK() {
		err = status(exitIntegrity)
	}
	return err
}

func (a *app) completeItem(ctx context.Context, _ []string, typed string) (names []string) {
	m, err := a.memory(toRead)(ctx)
	if err != nil {
		return nil
	}
	items, _ := m.Items(ctx, tipstaff.MemoryQuery{Limit: 100})
	for _, item := range items {
		if strings.HasPrefix(item.Item, typed) {
			names = append(names, cobra.CompletionWithDesc(item.Item, clean(item.Text)))
		}
	}
	return names
}

func completeType(*app, context.Context, []string, string) []string {
	return slices.DeleteFunc(tipstaff.MemoryTypes(), func(t string) bool { return t == "event" }) // those the executor writes itself
}
