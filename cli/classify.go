package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type classifyOptions struct {
	*app
	old, new string
	manifest string
	now      string
}

func newClassify(a *app) *cobra.Command {
	o := &classifyOptions{app: a}
	cmd := &cobra.Command{
		Use:   "classify OLD NEW",
		Short: "Say whether a changed plan must be accepted again",
		Long: `Compare two plans and say whether the change is material: whether it goes beyond
what whoever accepted OLD has agreed to. Each reason names its rule. One of the
two may be -, for standard input.

The effect classes of tools come from the manifest; a tool that it does not have
counts as one that must not be called twice.

Exit code 9: the change is material. 0: it is not. Nothing is run or stored.`,
		Example: `  tipstaff classify plan.yaml revised.yaml
  git show HEAD:plan.yaml | tipstaff classify - plan.yaml --json`,
		Args:              needs("OLD", "NEW"),
		ValidArgsFunction: completed(a, completeFile, completeFile),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.old, o.new = args[0], args[1]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.now, "now", "", "look at deadlines from this `time`, like 2026-01-31T18:00:00Z (default the present)")
	cmd.Flags().StringVar(&o.manifest, "manifest", "", "the manifest `file` (default tipstaff.yaml of the workspace, if there is one)")
	return cmd
}

func (o *classifyOptions) run(ctx context.Context) error {
	req, err := o.request()
	if err != nil {
		return err
	}
	classifier, err := o.env.Classifier(o.workspaceDir())
	if err != nil {
		return err
	}
	found, err := classifier.Classify(ctx, req)
	if err != nil {
		return err
	}
	if o.json {
		err = o.writeJSON(found)
	} else {
		o.print(found)
	}
	if err != nil {
		return err
	}
	if found.Material {
		return status(exitMaterial)
	}
	return nil
}

// request reads what the command line names.
func (o *classifyOptions) request() (req tipstaff.ClassifyRequest, err error) {
	if o.now != "" {
		if req.Now, err = time.Parse(time.RFC3339, o.now); err != nil {
			return req, &usageError{message: fmt.Sprintf("--now %q is no time", o.now), hint: "write it like 2026-01-31T18:00:00Z"}
		}
	}
	standard := 0
	for _, name := range []string{o.old, o.new, o.manifest} {
		if name == "-" {
			standard++
		}
	}
	if standard > 1 {
		return req, &usageError{message: "only one document can come from standard input"}
	}
	if req.Old, err = o.source(o.old); err != nil {
		return req, err
	}
	if req.New, err = o.source(o.new); err != nil || o.manifest == "" {
		return req, err
	}
	manifest, err := o.source(o.manifest)
	req.Manifest = &manifest
	return req, err
}

func (a *app) source(name string) (tipstaff.Source, error) {
	text, err := a.read(name)
	if name == "-" {
		name = "stdin"
	}
	return tipstaff.Source{Name: name, Text: text}, err
}

func (a *app) print(c tipstaff.Classification) {
	if !c.Material {
		fmt.Fprintln(a.out, "not material")
		return
	}
	fmt.Fprintln(a.out, "material")
	for _, r := range c.Reasons {
		fmt.Fprintf(a.out, "  %s: %s\n", clean(r.Rule), clean(r.Detail))
	}
}
