package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/journal"
)

// definition is one assertion. What is expected and what was got are compared as JSON.
type definition struct {
	group, name string
	// each is of a definition that every run must meet, across of one about the three runs
	// together; one of them is set.
	each   func(e *evidence) (expected, got any)
	across func(a, b, c *evidence) (expected, got any)
	// spoil changes the evidence of a run as fault says, which must make the definition
	// fail; of one across runs, that of the run in.
	fault string
	spoil func(e *evidence)
	in    int
}

// Numbers of definitions that must be there: as many as the specification of the harness
// has, and as many assertions over three runs.
const (
	perRun     = 23
	crossRun   = 6
	assertions = 3*perRun + crossRun
)

const lifecycle = "drafting --[intent.compiled]--> proposed --[intent.clarify]--> clarifying --[intent.answer]--> proposed" +
	" --[intent.accept]--> accepted --[plan.proposed]--> executing --[intent.correct]--> executing" +
	" --[intent.correct]--> accepted --[plan.proposed]--> executing --[intent.attest]--> completed"

var definitions = []definition{
	listed("files", filesVersion, "another version is reported", func(l *listing) { l.Version = "1.4.1" }),
	listed("notes", notesVersion, "a tool's description has changed", func(l *listing) {
		l.Tools["post"] = json.RawMessage(strings.Replace(string(l.Tools["post"]), "cannot", "can", 1))
	}),
	listed("builtin", builtinVersion, "a tool is gone", func(l *listing) { delete(l.Tools, "http_get") }),

	{group: "memory", name: "the head of the seeded log is the hash of its three records",
		each: func(e *evidence) (any, any) {
			return object{"records": len(seeds), "head": chained(e.Seeded.Records)}, object{"records": e.Seeded.Seq, "head": e.Seeded.Head}
		},
		fault: "a seeded item was changed", spoil: func(e *evidence) {
			e.Seeded.Records[1] = []byte(strings.Replace(string(e.Seeded.Records[1]), "Fact 2", "Fact 4", 1))
		}},

	{group: "draft", name: "the intent's hash is that of what the model wrote",
		each: func(e *evidence) (any, any) {
			return digestOf([]byte(text(member([]byte(e.Said.Plan), "intent")))), tipstaff.BodyOf[tipstaff.PlanDrafted](e.at(tipstaff.KindPlanDrafted, -1)).IntentHash
		},
		fault: "the recorded hash is another", spoil: func(e *evidence) { e.edit(tipstaff.KindPlanDrafted, object{"intent_hash": digest(nil)}) }},
	{group: "draft", name: "the verb is the one that the model wrote",
		each: func(e *evidence) (any, any) {
			return member([]byte(e.Said.Plan), "intent", "verb"), member(e.accepted(), "intent", "verb")
		},
		fault: "the accepted plan has another verb", spoil: func(e *evidence) { e.replace(`"verb":"`+verb+`"`, `"verb":"find"`) }},
	{group: "draft", name: "the objects are those that the model wrote",
		each: func(e *evidence) (any, any) {
			return member([]byte(e.Said.Plan), "intent", "objects"), member(e.accepted(), "intent", "objects")
		},
		fault: "the accepted plan has another object", spoil: func(e *evidence) { e.replace(`"name":"release"`, `"name":"secret"`) }},
	{group: "draft", name: "the skill's digest is that of its files",
		each: func(e *evidence) (any, any) {
			identity := object{"manifest": json.RawMessage(e.Skill["skill.yaml"]), "prose_sha256": digest(e.Skill["SKILL.md"])}
			return digestOf([]byte(text(identity))), tipstaff.BodyOf[tipstaff.IntentDraft](e.at(tipstaff.KindIntentDraft, 0)).SkillDigest
		},
		fault: "the skill's prose was changed", spoil: func(e *evidence) { e.Skill["SKILL.md"] = append(slices.Clone(e.Skill["SKILL.md"]), '!') }},

	{group: "acceptance", name: "a drafted plan is proposed, and no tool was called for it",
		each: func(e *evidence) (any, any) {
			r := e.Rests[restDrafted]
			return object{"state": tipstaff.Proposed, "calls": calls{}}, object{"state": r.State, "calls": r.Calls}
		},
		fault: "the run executes before anybody has accepted", spoil: func(e *evidence) { e.rest(restDrafted, func(r *rest) { r.State = tipstaff.Executing }) }},
	{group: "acceptance", name: "exactly one gate asks at a time: clarification, then confirmation",
		each: func(e *evidence) (any, any) {
			return [][]tipstaff.GateKind{{tipstaff.Clarification}, {tipstaff.Confirmation}}, [][]tipstaff.GateKind{e.Rests[restAsked].Gates, e.Rests[restDrafted].Gates}
		},
		fault: "a second gate is open", spoil: func(e *evidence) {
			e.rest(restDrafted, func(r *rest) { r.Gates = append(slices.Clone(r.Gates), tipstaff.Question) })
		}},
	{group: "acceptance", name: "the answer is in the next request to the model, and not before",
		each: func(e *evidence) (any, any) {
			next := e.Rests[restAsked].Asked
			before := strings.Join(e.Asked[:next], "\n")
			return []bool{true, false, true}, []bool{next > 0, strings.Contains(before, answer), strings.Contains(e.Asked[next], answer)}
		},
		fault: "the model is asked again without the answer", spoil: func(e *evidence) { e.Asked[e.Rests[restAsked].Asked] = e.Asked[0] }},
	{group: "acceptance", name: "the acceptance is signed by the user, over intent and program",
		each: func(e *evidence) (any, any) {
			accept := e.at(tipstaff.KindIntentAccept, 0)
			said := tipstaff.BodyOf[tipstaff.IntentAccept](accept)
			return []string{"user", digestOf([]byte(text(member([]byte(e.Said.Plan), "intent")))), digestOf([]byte(e.Said.Plan))},
				[]string{e.signer(accept), said.IntentHash, said.ProgramDigest}
		},
		fault: "the executor has signed it", spoil: func(e *evidence) { e.at(tipstaff.KindIntentAccept, 0).From = "executor" }},

	{group: "execution", name: "the program in force is the one that was written, with no tool that the skill does not list",
		each: func(e *evidence) (any, any) {
			listed := slices.Sorted(slices.Values(tools))
			named := slices.Compact(slices.Sorted(slices.Values(toolsOf(member(e.accepted())))))
			proposed := tipstaff.BodyOf[tipstaff.PlanProposed](e.at(tipstaff.KindPlanProposed, 0))
			return object{"digest": digestOf([]byte(e.Said.Plan)), "stored": proposed.ProgramDigest, "tools": listed},
				object{"digest": proposed.ProgramDigest, "stored": digestOf(e.accepted()), "tools": named}
		},
		fault: "the stored program calls another tool", spoil: func(e *evidence) { e.replace(filesWrite, "mcp://files/delete@"+filesVersion) }},
	{group: "execution", name: "plan.proposed names the accepting envelope",
		each: func(e *evidence) (any, any) {
			var resolved tipstaff.Event // that accepts the second correction
			for _, r := range e.of(tipstaff.KindPolicyGateResolve) {
				if tipstaff.BodyOf[tipstaff.GateResolved](r).Action == "accept" {
					resolved = *r
				}
			}
			named := []string{}
			for _, p := range e.of(tipstaff.KindPlanProposed) {
				named = append(named, tipstaff.BodyOf[tipstaff.PlanProposed](p).AcceptedBy)
			}
			return []string{e.at(tipstaff.KindIntentAccept, 0).ID.String(), resolved.ID.String()}, named
		},
		fault: "it names the draft", spoil: func(e *evidence) {
			e.edit(tipstaff.KindPlanProposed, object{"accepted_by": e.at(tipstaff.KindIntentDraft, 0).ID})
		}},

	{group: "corrections", name: "one that is not material leaves the run executing and asks for no confirmation",
		each: func(e *evidence) (any, any) {
			r := e.Rests[restCorrected]
			return object{"material": false, "rules": []string{}, "state": tipstaff.Executing, "gates": []tipstaff.GateKind{tipstaff.Question}},
				object{"material": e.correction(0).Material, "rules": e.rules(0), "state": r.State, "gates": r.Gates}
		},
		fault: "a confirmation is asked for", spoil: func(e *evidence) {
			e.rest(restCorrected, func(r *rest) { r.Gates = []tipstaff.GateKind{tipstaff.Confirmation} })
		}},
	{group: "corrections", name: "a material one names its rules and waits to be accepted",
		each: func(e *evidence) (any, any) {
			r := e.Rests[restMaterial]
			return object{"material": true, "rules": materialRules, "state": tipstaff.Accepted, "gates": []tipstaff.GateKind{tipstaff.Confirmation}},
				object{"material": e.correction(1).Material, "rules": e.rules(1), "state": r.State, "gates": r.Gates}
		},
		fault: "a rule is missing", spoil: func(e *evidence) {
			e.edit(tipstaff.KindIntentCorrect, object{"reasons": e.correction(1).Reasons[:1]})
		}},
	{group: "corrections", name: "what is carried over is not called again",
		each: func(e *evidence) (any, any) {
			once := calls{"files/list": 1, "files/read": 1, "notes/find": 1, "builtin/http_get": 1, "notes/post": 1}
			return object{"before": once, "after": once, "carried": [][]string{done, done}},
				object{"before": e.Rests[restGate].Calls, "after": e.Rests[restMaterial].Calls, "carried": [][]string{e.carried("root@2/"), e.carried("root@3/")}}
		},
		fault: "a carried call is made again", spoil: func(e *evidence) {
			e.rest(restMaterial, func(r *rest) { r.Calls["notes/post"]++ })
		}},

	{group: "attest", name: "the memory has one attest of the run, and what was learned right after it",
		each: func(e *evidence) (any, any) {
			attests, next := e.Memory.ends(e.Run)
			var at int64
			if len(attests) > 0 {
				at = attests[0].Seq
			}
			said, _ := member(e.at(tipstaff.KindIntentAttest, -1).Body, "evidence", "cortex").(map[string]any)
			return object{"attests": 1, "kind": "learn_weights", "seq": at + 1, "source": at, "signed": object{"attest_seq": at, "learn_seq": at + 1}},
				object{"attests": len(attests), "kind": next.Kind, "seq": next.Seq, "source": next.Body.SourceSeq, "signed": said}
		},
		fault: "it was attested twice", spoil: func(e *evidence) {
			for i, r := range e.Memory.entries() {
				if r.Kind == "attest" {
					e.Memory.Records = slices.Insert(e.Memory.Records, i, e.Memory.Records[i])
					return
				}
			}
		}},
	{group: "attest", name: "each counted item has one citation and one access more",
		each: func(e *evidence) (any, any) {
			expected, got := map[string][]int64{}, map[string][]int64{}
			for item, before := range e.Before {
				expected[item] = []int64{before.Citations + 1, before.Accesses + 1}
			}
			_, learn := e.Memory.ends(e.Run)
			for _, item := range learn.Body.Counted {
				got[item] = []int64{e.After[item].Citations, e.After[item].Accesses}
			}
			return expected, got
		},
		fault: "an item was counted twice", spoil: func(e *evidence) {
			item := slices.Min(slices.Collect(maps.Keys(e.After)))
			twice := e.After[item]
			twice.Citations++
			e.After[item] = twice
		}},
	{group: "attest", name: "the weights are those that the formula gives",
		each: func(e *evidence) (any, any) {
			attests, learn := e.Memory.ends(e.Run)
			var counted []tipstaff.MemoryItem
			for _, item := range learn.Body.Counted {
				counted = append(counted, e.Before[item])
			}
			expected := learn.Body.Prev
			for _, a := range attests {
				expected = learned(expected, counted, a.At)
			}
			return object{"counted": len(seeds), "recorded": expected, "in force": expected},
				object{"counted": len(counted), "recorded": learn.Body.New, "in force": e.Weights}
		},
		fault: "a weight is off by one", spoil: func(e *evidence) { e.Weights[0]++ }},

	{group: "end", name: "the attestation is signed by the executor, over the outputs that the plan must have",
		each: func(e *evidence) (any, any) {
			attest := e.at(tipstaff.KindIntentAttest, -1)
			said := tipstaff.BodyOf[tipstaff.IntentAttest](attest)
			return []string{"executor", "success", digestOf([]byte(text(e.Said.outputs())))}, []string{e.signer(attest), said.Outcome, said.OutputsDigest}
		},
		fault: "a bit of the attestation is changed", spoil: func(e *evidence) {
			attest := e.at(tipstaff.KindIntentAttest, -1)
			attest.Raw = []byte(strings.Replace(string(attest.Raw), `"success"`, `"succesr"`, 1))
		}},
	{group: "end", name: "a replay without servers asks for records of the journal alone, and calls nothing",
		each: func(e *evidence) (any, any) {
			stored := map[string]bool{}
			for i := range e.Records {
				stored[string(e.Records[i].Raw)] = true
			}
			same := 0
			for _, r := range e.Replay.Records {
				if stored[string(r)] {
					same++
				}
			}
			return object{"exit code": 0, "outcome": "success", "as stored": len(e.Replay.Records), "finished calls": len(e.of(tipstaff.KindEffectFinished)), "calls": calls{}},
				object{"exit code": e.Replay.Code, "outcome": e.Replay.Outcome, "as stored": same, "finished calls": e.Replay.finished(), "calls": e.Replay.Calls}
		},
		fault: "a replayed record is another than the stored one", spoil: func(e *evidence) { e.Replay.Records[0] = append(slices.Clone(e.Replay.Records[0]), ' ') }},
	{group: "end", name: "verify finds nothing, and finds one bit that was changed",
		each: func(e *evidence) (any, any) {
			return object{"exit code": 0, "changed": 6}, object{"exit code": e.Verified, "changed": e.Flipped}
		},
		fault: "the changed bit is not found", spoil: func(e *evidence) { e.Flipped = e.Verified }},

	{group: "together", name: "A and B have the same programs",
		across: func(a, b, _ *evidence) (any, any) {
			return a.terms(func(t tipstaff.Terms) string { return t.ProgramDigest }), b.terms(func(t tipstaff.Terms) string { return t.ProgramDigest })
		},
		in: 1, fault: "B has another program", spoil: func(e *evidence) { e.edit(tipstaff.KindPlanProposed, object{"program_digest": digest(nil)}) }},
	{group: "together", name: "A and B have the same intents",
		across: func(a, b, _ *evidence) (any, any) {
			return a.terms(func(t tipstaff.Terms) string { return t.IntentHash }), b.terms(func(t tipstaff.Terms) string { return t.IntentHash })
		},
		in: 1, fault: "B has another intent", spoil: func(e *evidence) { e.edit(tipstaff.KindPlanProposed, object{"intent_hash": digest(nil)}) }},
	{group: "together", name: "A and B have the same records at each path, but for ids, times and hashes",
		across: func(a, b, _ *evidence) (any, any) {
			without := timed
			if a.Live {
				without = slices.Concat(timed, byModel)
			}
			expected, got := a.sequences(without), b.sequences(without)
			if len(expected) == 0 {
				return nil, got
			}
			paths := []int{len(expected), len(got)}
			for path := range expected { // what is equal is not shown
				if text(expected[path]) == text(got[path]) {
					delete(expected, path)
					delete(got, path)
				}
			}
			return object{"paths": paths[0], "different": expected}, object{"paths": paths[1], "different": got}
		},
		in: 1, fault: "B lacks a record", spoil: func(e *evidence) { e.Records = slices.Delete(e.Records, len(e.Records)/2, len(e.Records)/2+1) }},
	{group: "together", name: "A and C went through exactly these states",
		across: func(a, _, c *evidence) (any, any) {
			return []string{lifecycle, lifecycle}, []string{a.Lifecycle, c.Lifecycle}
		},
		in: 2, fault: "C was never asked to confirm", spoil: func(e *evidence) {
			e.Lifecycle = strings.Replace(e.Lifecycle, "accepted --[plan.proposed]--> executing --[intent.attest]", "executing --[intent.attest]", 1)
		}},
	{group: "together", name: "what can be done once was done once in each run",
		across: func(a, b, c *evidence) (any, any) {
			return []int{1, 1, 1}, []int{a.Calls["notes/post"], b.Calls["notes/post"], c.Calls["notes/post"]}
		},
		in: 2, fault: "C has posted twice", spoil: func(e *evidence) { e.Calls["notes/post"]++ }},
	{group: "together", name: "each run has a folder of its own, whose files are the envelopes of the store",
		across: func(a, b, c *evidence) (any, any) {
			expected, got := map[string]map[string]string{}, map[string]map[string]string{}
			for _, e := range []*evidence{a, b, c} {
				if expected[e.Folder], got[e.Folder] = e.envelopes(), e.files(); len(e.Records) == 0 {
					return nil, got
				}
			}
			return object{"folders": 3, "files": expected}, object{"folders": len(got), "files": got}
		},
		in: 2, fault: "a file of C was changed", spoil: func(e *evidence) {
			name := slices.Max(slices.Collect(maps.Keys(e.Files)))
			e.Files[name] = []byte(strings.Replace(string(e.Files[name]), "success", "partial", 1))
		}},
}

// listed is that a server has the version that it must have, and the tools of the lock.
func listed(server, version, fault string, spoil func(*listing)) definition {
	return definition{group: "servers", name: server + " reports its version, and lists what the lock holds",
		each: func(e *evidence) (any, any) {
			locked := e.Locked[server].digests()
			locked[""] = version
			return locked, e.Listed[server].digests()
		},
		fault: fault, spoil: func(e *evidence) {
			l := e.Listed[server]
			l.Tools = maps.Clone(l.Tools)
			spoil(&l)
			e.Listed[server] = l
		}}
}

// digests are those of a server's definitions by tool; "" is its version.
func (l listing) digests() map[string]string {
	all := map[string]string{"": l.Version}
	for tool, definition := range l.Tools {
		all[tool] = digestOf(definition)
	}
	return all
}

// accepted is the program that was accepted first, as it is stored.
func (e *evidence) accepted() []byte {
	return e.Programs[tipstaff.BodyOf[tipstaff.PlanProposed](e.at(tipstaff.KindPlanProposed, 0)).ProgramDigest]
}

func (e *evidence) correction(i int) tipstaff.IntentCorrect {
	return tipstaff.BodyOf[tipstaff.IntentCorrect](e.at(tipstaff.KindIntentCorrect, i))
}

// rules are those that make a correction material.
func (e *evidence) rules(i int) []string {
	rules := []string{}
	for _, r := range e.correction(i).Reasons {
		rules = append(rules, r.Rule)
	}
	return rules
}

// carried are the leaves below a path that were carried over, in the order of done.
func (e *evidence) carried(below string) []string {
	at := map[string]bool{}
	for _, r := range e.of(tipstaff.KindPlanStep) {
		step := tipstaff.BodyOf[tipstaff.PlanStep](r)
		if strings.HasPrefix(r.Path, below) && step.Status == tipstaff.StepCarried {
			at[step.Node] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(done), func(node string) bool { return !at[node] })
}

// terms are one half of what was in force, revision by revision.
func (e *evidence) terms(half func(tipstaff.Terms) string) (all []string) {
	for _, p := range e.of(tipstaff.KindPlanProposed) {
		all = append(all, half(tipstaff.BodyOf[tipstaff.PlanProposed](p).Terms))
	}
	return all
}

// envelopes are the digests of the envelopes by the names that their files must have.
func (e *evidence) envelopes() map[string]string {
	all := map[string]string{}
	for i := range e.Records {
		if r := &e.Records[i]; journal.IsEnvelope(string(r.Kind)) {
			all[fmt.Sprintf("%06d-%s.json", r.Seq, r.Kind)] = digestOf(r.Raw)
		}
	}
	return all
}

func (e *evidence) files() map[string]string {
	all := map[string]string{}
	for name, content := range e.Files {
		all[name] = digestOf(content)
	}
	return all
}

// finished is how many of the replayed records are results of calls.
func (r replay) finished() (n int) {
	for _, record := range r.Records {
		if member(record, "kind") == string(tipstaff.KindEffectFinished) {
			n++
		}
	}
	return n
}

// edit changes members of the body of the last record of a kind.
func (e *evidence) edit(kind tipstaff.Kind, members object) {
	r := e.at(kind, -1)
	body := object{}
	_ = json.Unmarshal(r.Body, &body) // as the store has it
	maps.Copy(body, members)
	r.Body = json.RawMessage(text(body))
}

// replace changes the stored programs.
func (e *evidence) replace(was, is string) {
	for digest, program := range e.Programs {
		e.Programs[digest] = []byte(strings.ReplaceAll(string(program), was, is))
	}
}

// rest changes how a run was found.
func (e *evidence) rest(place string, change func(*rest)) {
	r := e.Rests[place]
	r.Calls = maps.Clone(r.Calls)
	change(&r)
	e.Rests[place] = r
}
