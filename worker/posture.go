package worker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// stance is what a posture comes to for one CLI.
type stance struct {
	flags []string
	hook  bool     // it asks Tipstaff
	open  []string // what it may do without asking: kinds of tools
	// may says of each native tool that is not a reading one whether the CLI's own rules
	// let it run; nil: it has none.
	may map[string]bool
	// cannot lists what the CLI cannot express.
	cannot []string
}

// verdicts are the static rulings of a policy on the native tools of a type.
type verdicts struct {
	tools   []nativeTool
	rulings map[string]Ruling
}

func judge(t *cliType, p Policy) verdicts {
	v := verdicts{t.tools(), map[string]Ruling{}}
	for _, n := range v.tools {
		v.rulings[n.name] = p.Static(nativeServer(t.name), n.name, nativeClass(t.name, n.name))
	}
	return v
}

// of is the ruling on a kind of tools: the effect that all of them have, else depends.
func (v verdicts) of(does string) (effect string) {
	for _, n := range v.tools {
		switch e := v.rulings[n.name].Effect; {
		case n.does != does:
		case effect == "" || effect == e:
			effect = e
		default:
			effect = Depends
		}
	}
	return effect
}

// allowed are the tools that a policy allows whatever they are called with.
func (v verdicts) allowed(does ...string) map[string]bool {
	may := map[string]bool{}
	for _, n := range v.tools {
		if n.does != reads {
			may[n.name] = slices.Contains(does, n.does) || v.rulings[n.name].Effect == Allow
		}
	}
	return may
}

// mixed are the rules on tools of one kind that are decided differently.
func (v verdicts) mixed(does string) []string {
	var list []string
	for _, n := range v.tools {
		if n.does == does && v.of(does) == Depends {
			list = append(list, ruleText(n, v.rulings[n.name]))
		}
	}
	return list
}

// undecided are the rules on what no CLI can decide by itself.
func (v verdicts) undecided() []string {
	var list []string
	for _, n := range v.tools {
		r := v.rulings[n.name]
		if n.does != reads && r.Effect != Allow && r.Effect != Deny {
			list = append(list, ruleText(n, r))
		}
	}
	return list
}

// unenforced are the rules that do not hold inside a CLI with this stance.
func (v verdicts) unenforced(s stance) []string {
	list := []string{}
	for _, n := range v.tools {
		r := v.rulings[n.name]
		switch {
		case n.does == reads && r.Effect == Deny, // CLIs read without asking
			n.does != reads && slices.Contains(s.open, n.does) && r.Effect != Allow,
			n.does != reads && s.may != nil && s.may[n.name] && r.Effect != Allow && !slices.Contains(s.open, n.does):
			list = append(list, ruleText(n, r))
		}
	}
	return list
}

func ruleText(n nativeTool, r Ruling) string {
	rules := strings.Join(r.Rules, ", ")
	if rules == "" {
		rules = "no rule"
	}
	return fmt.Sprintf("%s: %s %s", rules, r.Effect, n.name)
}

// take finds the stance of a worker, or why it cannot take one.
func (w *CLI) take(p Posture, policy Policy) (stance, []string, error) {
	if p == Bypass && w.config.Sandbox == "" {
		return stance{}, nil, tipstaff.Errorf(tipstaff.WorkerSandboxRequired, "worker %q is to run without any limits of its own, which needs a sandbox", w.config.Name).
			WithHint("a sandbox is stated by whoever starts Tipstaff, and by no file of a repository").
			WithCommand("set TIPSTAFF_SANDBOX to a description of it")
	}
	v := judge(w.of, policy)
	s := w.of.stance(p, v)
	if p == Auto && !s.hook {
		if cannot := append(v.undecided(), s.cannot...); len(cannot) > 0 {
			return s, nil, tipstaff.Errorf(tipstaff.WorkerPolicyInexpressible, "%s cannot be told these rules of the policy: %s", w.of.name, strings.Join(cannot, "; ")).
				WithHint("nobody can be asked inside this CLI: decide these tools with allow or deny, or give the worker the posture read_only or write")
		}
	}
	return s, v.unenforced(s), nil
}
