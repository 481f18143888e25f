package tipstaff

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// tale is records with times of their own: lines "+offset kind path epoch body", where path
// - is the run itself.
func tale(t testing.TB, text string) []Event {
	t.Helper()
	j := accepted()
	for i := range j {
		j[i].At = dawn
	}
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 5)
		if f[0] == "" {
			continue
		}
		f = append(f, "-", "0", "{}")
		after, err := time.ParseDuration(f[0])
		if err != nil {
			t.Fatal(err)
		}
		path := strings.Trim(f[2], "-")
		j.add(Kind(f[1]), path, int64(f[3][0]-'0'), f[4])
		j[len(j)-1].At = dawn.Add(after)
		if !KnownKind(Kind(f[1])) || !json.Valid([]byte(f[4])) {
			t.Fatalf("no record: %q", line)
		}
	}
	return j
}

// lifeText is what a life has kept, in a line.
func lifeText(l *Life) string {
	var parts []string
	for _, s := range l.Segments {
		part := string(s.Kind)
		if s.Ms > 0 {
			part += " " + (time.Duration(s.Ms) * time.Millisecond).String()
		}
		if s.Gates > 0 {
			part += fmt.Sprintf(" •%d", s.Gates)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

func TestLife(t *testing.T) {
	for _, c := range []struct {
		name, tale string
		condition  Condition
		now        time.Duration
		want, says string
	}{
		{"driven to its end", `
			1s run.started - 1 {}
			61s plan.step root/a 1 {"status":"completed"}
			241s intent.attest - 0 {"outcome":"success"}`,
			"", 300 * time.Hour, "driven 4m0s, completed", "driven 4 minutes in 1 drive, completed"},
		{"driven now", `
			1s run.started - 1 {}
			2s plan.step root/a 1 {"status":"started"}`,
			Running, 31 * time.Second, "driven 30s", "driven 30 seconds in 1 drive"},
		{"waiting for two gates, two days", `
			0s run.started - 1 {}
			90s run.parked - 1 {"gates":["G1","G2"],"wall_ms":90000}`,
			Waiting, 48*time.Hour + 90*time.Second, "driven 1m30s, parked 48h0m0s •2", "driven 1 minute in 1 drive, waited once"},
		{"killed twice, once without a word, and waited for twice", `
			0s run.started - 1 {}
			10s plan.step root/a 1 {"status":"started"}
			70s run.interrupted - 0 {"reason":"owner_died","found_by":"tipstaff[7]"}
			80s run.resumed - 2 {}
			100s plan.step root/a 2 {"status":"completed"}
			400s run.resumed - 3 {}
			405s run.parked - 3 {"gates":["G1"]}
			500s run.resumed - 4 {}
			501s run.parked - 4 {"gates":["G2"]}
			600s run.resumed - 5 {}
			602s intent.attest - 0 {}`,
			"", 9000 * time.Second, "driven 10s, killed 1m10s, driven 20s, killed 5m0s, driven 5s, parked 1m35s •1, driven 1s, parked 1m39s •1, driven 2s, completed",
			"driven 38 seconds in 5 drives, waited twice, killed twice, completed"},
		{"its owner is gone, and nobody has said so", `
			0s run.started - 1 {}
			10s plan.step root/a 1 {"status":"started"}`,
			Interrupted, 70 * time.Second, "driven 10s, killed 1m0s", "driven 10 seconds in 1 drive, killed once"},
		{"stopped by a signal", `
			0s run.started - 1 {}
			10s run.interrupted - 1 {"reason":"SIGTERM"}`,
			Interrupted, 70 * time.Second, "driven 10s, interrupted 1m0s", "driven 10 seconds in 1 drive, interrupted once"},
		{"corrected while it was driven", `
			0s run.started - 1 {}
			10s intent.correct - 0 {"material":false}
			30s intent.fail - 0 {"reason":"tool_error"}`,
			"", time.Hour, "driven 10s, corrected, driven 20s, failed", "driven 30 seconds in 1 drive, corrected once, failed"},
		{"corrected before anybody drove it", `
			10s intent.correct - 0 {"material":false}
			20s run.started - 1 {}
			30s intent.attest - 0 {}`,
			"", time.Hour, "corrected, driven 10s, completed", "driven 10 seconds in 1 drive, corrected once, completed"},
		{"cancelled long after its owner had died", `
			0s run.started - 1 {}
			10s plan.step root/a 1 {"status":"started"}
			5000s intent.cancel - 0 {"reason":"no"}`,
			"", time.Hour, "driven 10s, cancelled", "driven 10 seconds in 1 drive, cancelled"},
		{"queued, and cancelled there", `
			0s run.queued - 0 {}
			60s intent.cancel - 0 {"reason":"no"}`,
			"", time.Hour, "queued 1m0s, cancelled", "never driven, cancelled"},
		{"its history began afresh, which is no drive", `
			0s run.started - 1 {}
			10s run.continued - 1 {"state":{},"used":{},"limit":{},"wall_ms":10000}
			30s intent.attest - 0 {}`,
			"", time.Hour, "driven 30s, completed", "driven 30 seconds in 1 drive, completed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := records(tale(t, c.tale)).fold()
			l := f.life(c.condition, dawn.Add(c.now))
			if later := f.life(c.condition, dawn.Add(2*c.now)); c.condition != Running && !cmp.Equal(l, later) {
				t.Errorf("to a run that rests it matters when one looks: %v, %v", l, later)
			}
			whole := l.Until(dawn.Add(c.now))
			if diff := cmp.Diff(c.want, lifeText(&whole)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.says, l.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A run of many drives keeps the newest of its life, counts all, and takes little room.
func TestLifeKeepsTheNewest(t *testing.T) {
	j := records(tale(t, ""))
	for i := range 1000 {
		j.add(KindRunResumed, "", int64(i+1), `{}`)
		j.add(KindRunParked, "", int64(i+1), `{"gates":["G1"]}`)
	}
	j.add(KindIntentCancel, "", 0, `{"reason":"no"}`)
	f := j.fold()
	l := f.life("", dawn)
	if l.Drives != 1000 || l.Waits != 1000 || l.DrivenMs != 1_000_000 {
		t.Errorf("%s", l)
	}
	if n := len(l.Segments); n != 32 || l.Segments[31].Kind != LifeCancelled || l.Segments[30].Kind != LifeParked {
		t.Errorf("%d segments: %s", n, lifeText(l))
	}
	if stored, _ := json.Marshal(f.Life); len(stored) > 1700 {
		t.Errorf("%d bytes in the row of the run", len(stored))
	}
}

// The life of a real run that was killed in a call, and decided on by a person.
func TestLifeOfARunThatWasKilled(t *testing.T) {
	f := records(goldenJournals(t)["doubt-used"]).fold()
	l := f.life("", f.At)
	var kinds []string
	for _, s := range l.Segments {
		kinds = append(kinds, string(s.Kind))
	}
	if got, want := strings.Join(kinds, " "), "driven killed driven parked driven completed"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if l.Drives != 3 || l.Kills != 1 || l.Waits != 1 || l.Interruptions != 0 {
		t.Errorf("%s", l)
	}
}

// A process that was started for a run and is gone before it could write leaves a trace all
// the same.
func TestLifeOfARunThatWasKilledBeforeItsFirstDrive(t *testing.T) {
	f := records(tale(t, "")).fold()
	run := Status(Facts{State: f.State, Launched: true}, f, nil, dawn.Add(time.Hour))
	if run.Life == nil {
		t.Fatal("there is no life")
	}
	whole := run.Life.Until(dawn.Add(time.Hour))
	if diff := cmp.Diff("driven, killed 1h0m0s / never driven, killed once", lifeText(&whole)+" / "+run.Life.String()); diff != "" {
		t.Error(diff)
	}
	if len(f.Life.Segments) != 0 {
		t.Error("the fold has changed: it would be stored")
	}
}

// How far a run has come: leaves that have ended well in the revision in force, stages whose
// last visit has. What a fork inherits nobody counts.
func TestStepsOfARun(t *testing.T) {
	plan := `
		0s run.started - 1 {}
		1s plan.step root/a 1 {"status":"completed"}
		2s plan.step root/b 1 {"status":"started"}
		3s plan.step root/b 1 {"status":"failed"}
		4s plan.step root/c 1 {"status":"completed"}`
	for _, c := range []struct {
		name, tale string
		pipeline   bool
		known      int
		want       *StepCount
	}{
		{"a plan", plan, false, 5, &StepCount{2, 5}},
		{"a program that nobody can read", plan, false, 0, nil},
		{"a corrected plan", plan + `
			5s run.continued - 1 {"state":{},"used":{},"limit":{},"wall_ms":1}
			6s plan.step root/a 1 {"status":"carried"}`, false, 4, &StepCount{1, 4}},
		{"a pipeline that goes back", `
			0s run.started - 1 {}
			1s stage.started write#1 1 {}
			2s stage.finished write#1 1 {"stage":"write","visit":1,"outcome":"success"}
			3s stage.started judge#1 1 {}
			4s plan.step judge/root/a 1 {"status":"completed"}
			5s stage.finished judge#1 1 {"stage":"judge","visit":1,"outcome":"success"}
			6s stage.started write#2 1 {}`, true, 3, &StepCount{1, 3}},
		{"a stage that asks before it is left", `
			0s run.started - 1 {}
			1s stage.finished write#1 1 {"stage":"write","visit":1,"outcome":"success"}
			2s stage.finished judge#1 1 {"stage":"judge","visit":1,"outcome":"success"}
			3s policy.gate judge#1/confirmation 1 {"gate":"g","gate_kind":"confirmation","question":"?","subject":{},"actions":["approve","deny"]}`, true, 3, &StepCount{1, 3}},
		{"one that was answered", `
			0s run.started - 1 {}
			1s stage.finished judge#1 1 {"stage":"judge","visit":1,"outcome":"success"}
			2s policy.gate judge#1/confirmation 1 {"gate":"g","gate_kind":"confirmation","question":"?","subject":{},"actions":["approve","deny"]}
			3s policy.gate.resolve - 0 {"gate":"g","action":"approve"}`, true, 3, &StepCount{1, 3}},
		{"a pipeline that has ended", `
			1s stage.finished write#1 1 {"stage":"write","visit":1,"outcome":"success"}
			2s stage.finished judge#1 1 {"stage":"judge","visit":1,"outcome":"error"}
			3s intent.attest - 0 {}`, true, 2, &StepCount{1, 2}},
	} {
		f := new(Fold)
		if c.pipeline {
			f.Pipeline = new(PipelineStatus)
		}
		for _, e := range tale(t, c.tale)[2:] {
			f.Apply(&e)
		}
		stored, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, ReadFold(stored).steps(c.known)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		f.Lineage = &Lineage{Relation: relationFork}
		if got := f.steps(c.known); got != nil {
			t.Errorf("%s, inherited: %+v", c.name, got)
		}
	}
}
