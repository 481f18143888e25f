//go:build unix

package golden

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/diff"
)

var update = flag.Bool("update", false, "write the transcripts of what is shown anew")

// What every surface shows of the runs of every generation is what its transcripts say.
func TestShown(t *testing.T) {
	manifests, err := filepath.Glob("v*/manifest.yaml")
	if err != nil || len(manifests) == 0 {
		t.Fatalf("there is no generation: %v", err)
	}
	for _, file := range manifests {
		g := readGeneration(t, filepath.Dir(file))
		for _, name := range slices.Sorted(maps.Keys(g.Workspaces)) {
			t.Run(g.dir+"/"+name, func(t *testing.T) {
				t.Parallel()
				w := g.unpack(t, name, 20*time.Minute) // the daemon stays up for all of the test, also on a busy machine
				sh := &shower{surfaces: &surfaces{workspace: w}, files: map[string]*strings.Builder{}, answers: map[string]*answer{}}
				sh.learn(true)
				expired := sh.unseen()
				sh.serve()
				sh.rest()
				sh.learn(false)
				sh.all(name, expired)
				sh.close()
				sh.held(filepath.Join(g.dir, "shown"), name)
			})
		}
	}
}

// shower writes the transcripts of a workspace.
type shower struct {
	*surfaces
	steady
	records map[string][][]byte // by the name of the run: all that it has now
	files   map[string]*strings.Builder
	to      *strings.Builder   // the transcript that is written
	id      string             // of the run that it is of; "": it is of no one run
	header  string             // of the pages of that run, as the overview has it
	answers map[string]*answer // those of JSON, by what they are called
}

// learn reads what is known of the runs beside what is shown of them: their records, from
// the store itself. What a daemon has recorded of runs that it took up is shown nowhere.
func (sh *shower) learn(taken bool) {
	sh.Helper()
	sh.records = sh.stored()
	sh.created = map[string]time.Time{}
	sh.ended = map[string]time.Time{}
	known := [][2]string{{sh.Dir, "<folder>"}}
	if sh.base != "" { // there is a daemon
		known = append(known, [2]string{sh.base, "<daemon>"}, [2]string{sh.named, "<daemon>"})
	}
	for _, e := range sh.runs {
		f, records := sh.frozen[e.Name], sh.records[e.Name]
		head, err := hex.DecodeString(strings.TrimPrefix(f.head, "sha256:"))
		sh.Check(err)
		for i, raw := range records {
			var r record
			sh.Check(json.Unmarshal(raw, &r))
			if i == 0 {
				sh.created[f.run] = r.At
			}
			if i < f.seq {
				sh.last = later(sh.last, r.At)
				if sh.first.IsZero() || r.At.Before(sh.first) {
					sh.first = r.At
				}
				continue
			}
			if e.Taken && !taken {
				break
			}
			sum := sha256.Sum256(append(head, raw...))
			head = sum[:]
			known = append(known, r.written(hex.EncodeToString(head))...)
			sh.ended[f.run] = r.At
		}
	}
	slices.SortStableFunc(known, func(a, b [2]string) int { return len(b[0]) - len(a[0]) }) // some begin with others
	var pairs []string
	for _, pair := range known {
		pairs = append(pairs, pair[0], pair[1])
	}
	sh.known = strings.NewReplacer(pairs...)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// record has what of a stored record differs when the same is written another time.
type record struct {
	At   time.Time
	ID   string
	Sig  string
	Body struct {
		FoundBy string `json:"found_by"`
	}
}

// written are the values of a record that was written when the store was opened, each with
// its placeholder, in all forms in which they are shown.
func (r record) written(hash string) (known [][2]string) {
	for _, layout := range []string{"2006-01-02T15:04:05.000000000Z", time.RFC3339Nano, time.RFC3339, "2006-01-02 15:04:05.000", time.DateTime, "2 Jan 2006 15:04:05 MST"} {
		known = append(known, [2]string{r.At.UTC().Format(layout), "<when it was opened>"})
	}
	for value, placeholder := range map[string]string{hash: "<hash>", r.ID: "<id>"} {
		if value != "" {
			known = append(known, [2]string{value, placeholder}, [2]string{value[:6] + "…" + value[len(value)-4:], placeholder})
		}
	}
	for value, placeholder := range map[string]string{r.Sig: "<signature>", r.Body.FoundBy: "<process>"} {
		if value != "" {
			known = append(known, [2]string{value, placeholder})
		}
	}
	return known
}

// stored reads the records of all runs.
func (w *workspace) stored() map[string][][]byte {
	w.Helper()
	db := w.store()
	defer db.Close()
	all := map[string][][]byte{}
	for _, e := range w.runs {
		rows, err := db.Query(`SELECT bytes FROM records WHERE run = (SELECT n FROM runs WHERE id = ?) ORDER BY seq`, w.frozen[e.Name].run)
		w.Check(err)
		for rows.Next() {
			var raw []byte
			w.Check(rows.Scan(&raw))
			all[e.Name] = append(all[e.Name], raw)
		}
		w.Check(rows.Err())
	}
	return all
}

// unseen asks what is shown of runs that wait to be resumed before the store is opened for
// writing: if a gate of theirs has expired nobody has written so, as the daemon does when it
// starts; and those that a daemon takes up are shown at no other time. It returns a transcript of each.
func (sh *shower) unseen() map[string]string {
	sh.Helper()
	all := map[string]string{}
	write := func(e expectation) {
		sh.id, sh.live = sh.frozen[e.Name].run, true
		sh.file(e.Name)
		sh.ran("show", sh.id)
		sh.ran("show", sh.id, "--evidence", "decisions")
		all[e.Name] = sh.to.String()
	}
	for _, e := range sh.runs {
		if e.Status == "awaiting_resume" && !e.Taken {
			write(e)
		}
	}
	taken := slices.DeleteFunc(slices.Clone(sh.runs), func(e expectation) bool { return !e.Taken })
	if len(taken) > 0 {
		sh.Must(0, "ls") // which records that their owner is dead
		sh.learn(true)
	}
	for _, e := range taken {
		write(e)
	}
	clear(sh.files)
	return all
}

// rest waits until the runs that the daemon has taken up have ended or ask something: pages
// count what waits for a person.
func (sh *shower) rest() {
	sh.Helper()
	for _, e := range sh.runs {
		if !e.Taken {
			continue
		}
		sh.Until(e.Name+" to rest", func() bool {
			_, body, _ := sh.get("/runs/" + sh.frozen[e.Name].run)
			var run shown
			sh.Check(json.Unmarshal(body, &run))
			return run.State == "completed" || run.Status == "awaiting_decision"
		})
	}
}

// all asks for everything that is shown. A few runs are shown at length: by every form of
// the command, and by the page.
func (sh *shower) all(name string, expired map[string]string) {
	sh.Helper()
	long := sh.atLength()
	for _, e := range sh.runs {
		sh.id, sh.live = sh.frozen[e.Name].run, !e.ended()
		sh.file(e.Name + ".txt")
		fmt.Fprintf(sh.to, "%s of %s: %s\n", e.Name, name, e.Is)
		if e.Taken {
			fmt.Fprintf(sh.to, "\nbefore a daemon takes it up:\n%s", expired[e.Name])
			continue
		}
		if len(sh.records[e.Name]) > sh.frozen[e.Name].seq && expired[e.Name] != "" {
			fmt.Fprintf(sh.to, "\nbefore anybody has written that a gate has expired:\n%s\nafter the daemon has:\n", expired[e.Name])
		}
		sh.run(e)
		if slices.Contains(long, e.Name) {
			sh.slices(sh.id)
			sh.called("run_verify", object{{"run_id", sh.id}}, "GET /runs/"+sh.id+"/verify")
			sh.forms(e)
			sh.file(e.Name + ".page.txt")
			fmt.Fprintf(sh.to, "%s of %s: %s\n", e.Name, name, e.Is)
			sh.pages(e)
		}
	}
	if slices.ContainsFunc(sh.runs, func(e expectation) bool { return e.Taken }) {
		return // the lists change as they are driven
	}
	sh.id, sh.live = "", true
	sh.file("all_runs.txt")
	fmt.Fprintf(sh.to, "the runs of %s\n", name)
	sh.lists()
}

// atLength names the longest run that has ended, and the longest that has not.
func (sh *shower) atLength() (names []string) {
	for _, ended := range []bool{true, false} {
		longest, most := "", 0
		for _, e := range sh.runs {
			if n := sh.frozen[e.Name].seq; e.ended() == ended && !e.Taken && n > most {
				longest, most = e.Name, n
			}
		}
		if longest != "" {
			names = append(names, longest)
		}
	}
	return names
}

// file begins a transcript.
func (sh *shower) file(name string) {
	sh.to = new(strings.Builder)
	sh.files[name] = sh.to
}

// section writes what was answered, below what was asked. There the run that a transcript
// is of is called RUN.
func (sh *shower) section(asked, answered string) {
	if first, rest, _ := strings.Cut(answered, "\n"); sh.id != "" && strings.HasPrefix(first, "as ") {
		answered = strings.ReplaceAll(first, sh.id, "RUN") + "\n" + rest
	}
	if sh.id != "" {
		asked = strings.ReplaceAll(asked, sh.id, "RUN")
	}
	fmt.Fprintf(sh.to, "\n-- %s --\n%s", asked, answered)
	if answered != "" && !strings.HasSuffix(answered, "\n") {
		sh.to.WriteByte('\n')
	}
}

// json writes an answer, compared with the one that above names, if any.
func (sh *shower) json(asked string, text []byte, w window, above string) object {
	sh.Helper()
	v, err := readJSON(text)
	if err != nil {
		sh.Fatalf("%s: %v", asked, err)
	}
	v = sh.steady.json(v, w)
	if sh.answers[above] == nil && above != "" {
		sh.Fatalf("%s is to be compared with %s, which was not asked", asked, above)
	}
	sh.section(asked, compared(v, sh.answers[above]))
	sh.answers[asked] = &answer{asked, v}
	o, _ := v.(object)
	return o
}

// asked asks the HTTP API. The transcript has the status where it is not 200.
func (sh *shower) asked(path, above string) object {
	sh.Helper()
	status, body, w := sh.get(path)
	head := "GET " + path
	if status != 200 {
		head += fmt.Sprintf(" (%d)", status)
	}
	return sh.json(head, body, w, above)
}

// called calls a tool of the control plane.
func (sh *shower) called(tool string, args object, above string) object {
	sh.Helper()
	given := map[string]any{}
	head := "mcp " + tool
	for _, a := range args {
		given[a.name] = a.value
		head += fmt.Sprintf(" %s=%v", a.name, a.value)
	}
	text, w := sh.call(tool, given)
	return sh.json(head, text, w, above)
}

// ran runs the command, and writes what it says: on standard error, too, and its exit code,
// if it is not 0.
func (sh *shower) ran(args ...string) {
	sh.Helper()
	r, w := sh.tipstaff(args...)
	said := sh.text(r.Out, w)
	if r.Err != "" {
		said += "stderr:\n" + sh.text(r.Err, w)
	}
	if r.Code != 0 {
		said += fmt.Sprintf("exit code %d\n", r.Code)
	}
	sh.section("tipstaff "+strings.Join(args, " "), said)
}

// ranJSON runs the command with --json: every line is a value, compared with what above
// says of it.
func (sh *shower) ranJSON(above func(object) string, args ...string) {
	sh.Helper()
	r, w := sh.tipstaff(append(args, "--json")...)
	var all strings.Builder
	for line := range strings.Lines(r.Out) {
		v, err := readJSON([]byte(line))
		if err != nil {
			sh.Fatalf("%v: %v", args, err)
		}
		v = sh.steady.json(v, w)
		var as *answer
		if o, isObject := v.(object); isObject && above != nil {
			if as = sh.answers[above(o)]; as == nil {
				sh.Fatalf("%v is to be compared with %s, which was not asked", args, above(o))
			}
		}
		all.WriteString(compared(v, as))
	}
	if r.Err != "" {
		all.WriteString("stderr:\n" + sh.text(r.Err, w))
	}
	if r.Code != 0 {
		fmt.Fprintf(&all, "exit code %d\n", r.Code)
	}
	sh.section("tipstaff "+strings.Join(args, " ")+" --json", all.String())
}

// like compares with one answer.
func like(above string) func(object) string { return func(object) string { return above } }

// run asks for everything that is shown of every run.
func (sh *shower) run(e expectation) {
	sh.Helper()
	run := sh.frozen[e.Name].run
	at, id := "/runs/"+run, object{{"run_id", run}}
	all := "GET " + at + "?include=all"

	status := sh.asked(at+"?include=all", "")
	sh.asked(at, all)
	sh.asked(at+"/status", "GET "+at)
	sh.called("run_status", append(id, member{"include", []string{"all"}}), all)
	sh.called("run_status", id, "GET "+at)
	sh.ran("show", run)

	sh.asked(at+"/diagnose", "")
	sh.called("run_diagnose", id, "GET "+at+"/diagnose")
	sh.asked(at+"/metrics", "")
	sh.called("run_metrics", id, "GET "+at+"/metrics")
	sh.evidence(at, id)
	sh.asked(at+"/diff", "")
	sh.called("run_diff", id, "GET "+at+"/diff")
	sh.asked(at+"/delivery", "")
	sh.called("delivery_gate", id, "GET "+at+"/delivery")
	sh.asked(at+"/verify", "")
	sh.ran("events", run)
	sh.sameRecords(e, at)
	sh.called("run_watch", append(id, member{"timeout_s", 1}), "")
	if status.get("pipeline") != nil {
		sh.ranJSON(nil, "show", run, "--transitions")
		sh.ran("show", run, "--graph", "mermaid")
	}
	if sh.talks(run) {
		sh.ranJSON(nil, "show", run, "--transcript")
	}
}

// slices of the evidence, as the API knows them.
var evidenceSlices = []string{"plan", "steps", "findings", "commands", "artifacts", "errors", "decisions", "bounds", "delivery", "verification"}

// evidence asks for the evidence, and for the gates and artifacts that it lists.
func (sh *shower) evidence(at string, id object) {
	sh.Helper()
	evidence := sh.asked(at+"/evidence", "")
	whole := sh.answers["GET "+at+"/evidence"]
	sh.called("run_evidence", id, whole.to)
	decisions, _ := evidence.get("decisions").(object)
	for _, item := range decisions.list("items") {
		sh.asked(at+"/gates/"+url.PathEscape(item.(object).text("key")), "")
	}
	artifacts, _ := evidence.get("artifacts").(object)
	for _, item := range artifacts.list("items") {
		digest := item.(object).text("digest")
		status, body, _ := sh.get(at + "/artifacts/" + url.PathEscape(digest))
		sh.section("GET "+at+"/artifacts/"+digest, fmt.Sprintf("status %d, %d bytes, sha256:%x\n", status, len(body), sha256.Sum256(body)))
	}
}

// slices asks for the evidence by its slices, of which nothing is written unless a slice is
// not what all of it says.
func (sh *shower) slices(run string) {
	sh.Helper()
	at := "/runs/" + run
	evidence := sh.answers["GET "+at+"/evidence"].value.(object)
	var same []string
	for _, slice := range evidenceSlices {
		_, body, w := sh.get(at + "/evidence?slice=" + slice)
		v, err := readJSON(body)
		sh.Check(err)
		v = sh.steady.json(v, w)
		want := object{}
		for _, m := range evidence {
			if m.name == "run_id" || m.name == "head_seq" || m.name == slice {
				want = append(want, m)
			}
		}
		if o, _ := v.(object); len(o) == len(want) && compared(want, &answer{"", v}) == "as \n" {
			same = append(same, slice)
			continue
		}
		sh.section("GET "+at+"/evidence?slice="+slice, compared(v, nil))
	}
	sh.section("GET "+at+"/evidence?slice=…", "as all of it: "+strings.Join(same, ", "))
	if same := string(sh.resource("tipstaff://runs" + strings.TrimPrefix(at, "/runs") + "/evidence")); same != "" {
		sh.json("mcp tipstaff:/"+at+"/evidence", []byte(same), window{time.Now().Add(-time.Minute), time.Now()}, "GET "+at+"/evidence")
	}
}

// sameRecords checks that what is told of the records is what they say. Their bytes are
// frozen: of an answer that has them, nothing else is written.
func (sh *shower) sameRecords(e expectation, at string) {
	sh.Helper()
	records := sh.records[e.Name]
	var events []any
	for page := 0; page*1000 < len(records); page++ {
		_, body, _ := sh.get(fmt.Sprintf("%s/events?detail=full&limit=1000&after=%d", at, page*1000))
		v, err := readJSON(body)
		sh.Check(err)
		events = append(events, v.(object).list("events")...)
	}
	sh.section("GET "+at+"/events?detail=full", sh.asRecords(events, records))
	var latest []any
	for line := range bytes.Lines(sh.resource("tipstaff:/" + at + "/events")) {
		v, err := readJSON(line)
		sh.Check(err)
		latest = append(latest, v)
	}
	sh.section("mcp tipstaff:/"+at+"/events", sh.asRecords(latest, records[max(0, len(records)-1000):]))
	var signed []byte
	for _, raw := range records {
		if bytes.Contains(raw, []byte(`"sig":`)) && bytes.HasSuffix(raw, []byte(`,"v":1}`)) {
			signed = append(append(signed, raw...), '\n')
		}
	}
	said := "the signed records\n"
	if journal := sh.resource("tipstaff:/" + at + "/journal"); !bytes.Equal(journal, signed) {
		said = "not the signed records:\n" + string(journal)
	}
	sh.section("mcp tipstaff:/"+at+"/journal", said)
}

// asRecords compares what is told of records with what they say, and writes what is not
// the same.
func (sh *shower) asRecords(events []any, records [][]byte) string {
	sh.Helper()
	if len(events) != len(records) {
		return fmt.Sprintf("%d events of %d records\n", len(events), len(records))
	}
	var b strings.Builder
	for i, raw := range records {
		v, err := readJSON(raw)
		sh.Check(err)
		r, want := v.(object), object{}
		for _, name := range []string{"seq", "at", "kind", "path", "body"} {
			if name == "at" {
				want = append(want, member{name, moment(r.text(name)).Format(time.RFC3339Nano)})
			} else if v := r.get(name); name != "path" || v != "" {
				want = append(want, member{name, v})
			}
		}
		if said := compared(events[i], &answer{"", want}); said != "as \n" {
			fmt.Fprintf(&b, "%s differs%s", r.get("seq"), said)
		}
	}
	return cmp.Or(b.String(), fmt.Sprintf("what the %d records say\n", len(records)))
}

// forms asks for the forms of the command that say in other words what was shown already.
func (sh *shower) forms(e expectation) {
	sh.Helper()
	run := sh.frozen[e.Name].run
	at := "GET /runs/" + run
	sh.ran("show", run, "--evidence")
	status, evidence := sh.answers[at].value.(object), sh.answers[at+"/evidence"].value.(object)
	if sh.talks(run) {
		sh.ran("show", run, "--transcript")
	}
	if sh.answers[at+"/diff"].value.(object).get("found") == true {
		sh.ran("show", run, "--diff")
		sh.ran("show", run, "--delivery")
	}
	if status.get("pipeline") != nil {
		sh.ran("show", run, "--transitions")
		sh.ran("show", run, "--checkpoints")
		sh.ranJSON(nil, "show", run, "--checkpoints")
		sh.ran("show", run, "--graph", "dot")
	}
	if e.ended() {
		sh.ranJSON(like(at+"?include=all"), "show", run)
		sh.ranJSON(like(at+"/metrics"), "show", run, "--metrics")
		sh.ran("show", run, "--metrics")
		sh.ranJSON(like(at+"/evidence"), "show", run, "--evidence")
		sh.ran("verify", run)
	} else {
		sh.ranJSON(like(at+"/diagnose"), "show", run, "--diagnose")
		sh.ran("show", run, "--diagnose")
		sh.ranJSON(like(at+"/verify"), "verify", run, "--open")
	}
	decisions, _ := evidence.get("decisions").(object)
	for _, item := range decisions.list("items") {
		sh.ran("show", run, "--gate", item.(object).text("key"))
	}
}

// talks reports whether agents take part in a run, so that it has a transcript of its own.
func (sh *shower) talks(run string) bool {
	metrics := sh.answers["GET /runs/"+run+"/metrics"].value.(object)
	return metrics.get("model_calls") != json.Number("0") || has(sh.answers["GET /runs/"+run].value.(object), "turn")
}

// visited writes a page: what stands in it and, of the first one, the frame around it.
func (sh *shower) visited(path string, framed bool) string {
	sh.Helper()
	status, body, w := sh.visit(path)
	page := string(body)
	head := "GET " + path
	if status != 200 {
		head += fmt.Sprintf(" (%d)", status)
	}
	if !framed {
		if m := inFrame.FindStringSubmatch(page); m != nil {
			page = m[1] + "\n" + m[2]
		}
	}
	text := sh.html(page, w)
	if found := runHeader.FindString(text); found != "" {
		if now := strings.ReplaceAll(found, ` aria-current="page"`, ""); now != sh.header {
			sh.header = now
		} else {
			text = strings.Replace(text, found, "<header>as above but for the current tab</header>", 1)
		}
	}
	sh.section(head, text)
	return string(body)
}

var (
	inFrame = regexp.MustCompile(`(?s)(<title>.*?</title>).*?<main id="main" tabindex="-1">(.*)</main>`)
	// runHeader stands above every view of a run.
	runHeader = regexp.MustCompile(`(?s)<header class="run">.*?</header>`)
	links     = regexp.MustCompile(`href="(/ui/[^"]*)"`)
)

// pages asks for the views that the page has of a run, and for its gates, and for one
// record, node and moment.
func (sh *shower) pages(e expectation) {
	sh.Helper()
	f := sh.frozen[e.Name]
	at := "/ui/runs/" + f.run
	overview := sh.visited(at, false)
	for _, view := range []string{"timeline", "journal", "cost", "files", "proof", "family", "talk"} {
		sh.visited(at+"/"+view, false)
	}
	var nodes []string
	for _, m := range links.FindAllStringSubmatch(overview, -1) {
		if strings.HasPrefix(m[1], at+"/node?") && !slices.Contains(nodes, m[1]) && len(nodes) < 4 {
			nodes = append(nodes, m[1])
		}
	}
	for _, node := range nodes {
		sh.visited(strings.ReplaceAll(node, "&amp;", "&"), false)
	}
	decisions, _ := sh.answers["GET /runs/"+f.run+"/evidence"].value.(object).get("decisions").(object)
	for _, item := range decisions.list("items") {
		sh.visited(at+"/gates/"+item.(object).text("gate_id"), false)
	}
	sh.visited(at+"/journal/1", false)
	sh.visited(fmt.Sprintf("%s/journal/%d", at, f.seq), false)
	sh.visited(fmt.Sprintf("%s?at=%d", at, f.seq/2), false)
	if lineage, _ := sh.answers["GET /runs/"+f.run].value.(object).get("lineage").(object); lineage.text("parent") != "" {
		sh.visited("/ui/compare?"+url.Values{"a": {lineage.text("parent")}, "b": {f.run}}.Encode(), false)
	}
}

// lists asks for what is shown of all runs together.
func (sh *shower) lists() {
	sh.Helper()
	ofRun := func(o object) string { return "GET /runs/" + o.text("run_id") }
	sh.ran("ls")
	sh.ranJSON(ofRun, "ls")
	sh.ran("decide")
	if sh.some("pipeline") {
		sh.ran("ls", "--threads")
	}
	if sh.some("turn") {
		sh.ran("sessions")
	}
	history := slices.Clone(sh.asked("/runs?limit=200", ""))
	for i, m := range history {
		if m.name == "items" {
			history[i].name = "runs"
		}
	}
	above := "GET /runs?limit=200, where runs are called items,"
	sh.answers[above] = &answer{above, history}
	sh.called("run_history", object{{"limit", 200}}, above)
	sh.asked("/pending", "")
	sh.called("pending_decisions", nil, "GET /pending")
	sh.asked("/threads", "")
	sh.visited("/ui/", true)
	for _, path := range []string{"/ui/runs", "/ui/sessions"} {
		sh.visited(path, false)
	}
}

// some reports whether the status of any run has a member.
func (sh *shower) some(name string) bool {
	return slices.ContainsFunc(sh.runs, func(e expectation) bool {
		return has(sh.answers["GET /runs/"+sh.frozen[e.Name].run].value.(object), name)
	})
}

// held compares the transcripts with those of the folder, or writes them there: those of
// the runs into a folder of the workspace, that of the lists beside it.
func (sh *shower) held(dir, name string) {
	sh.Helper()
	own := filepath.Join(dir, name)
	if *update && !sh.Failed() {
		sh.Check(os.RemoveAll(own))
		for file, text := range sh.files {
			sh.Check(os.MkdirAll(own, 0o755))
			sh.Check(os.WriteFile(filepath.Join(own, file), []byte(text.String()), 0o644))
		}
		return
	}
	for _, file := range slices.Sorted(maps.Keys(sh.files)) {
		path := filepath.Join(own, file)
		want, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			sh.Errorf("%s is not there: go test ./test/golden -run Shown -update writes it", path)
			continue
		}
		sh.Check(err)
		if told := differences(string(want), sh.files[file].String()); told != "" {
			sh.Errorf("%s: something else is shown now; if it should be, go test ./test/golden -run Shown -update\n%s", path, told)
		}
	}
	kept, err := filepath.Glob(filepath.Join(own, "*"))
	sh.Check(err)
	for _, path := range kept {
		if sh.files[filepath.Base(path)] == nil {
			sh.Errorf("%s is of no run", path)
		}
	}
}

// differences tells what differs between two transcripts, below what was asked.
func differences(want, got string) string {
	was, now := sections(want), sections(got)
	var b strings.Builder
	for _, asked := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(was.asked, now.asked)))) {
		if text := diff.Diff("then", []byte(was.answered[asked]), "now", []byte(now.answered[asked])); text != nil {
			_, hunks, _ := bytes.Cut(text, []byte("+++ now\n"))
			fmt.Fprintf(&b, "-- %s --\n%s", asked, hunks)
		}
	}
	if b.Len() == 0 && want != got {
		b.WriteString("the order of the sections\n")
	}
	return b.String()
}

// asking are the sections of a transcript.
type asking struct {
	asked    []string
	answered map[string]string
}

func sections(text string) asking {
	s := asking{answered: map[string]string{}}
	for i, part := range strings.Split(text, "\n-- ") {
		asked, answered := "", part
		if i > 0 {
			asked, answered, _ = strings.Cut(part, " --\n")
		}
		s.asked = append(s.asked, asked)
		s.answered[asked] += answered
	}
	return s
}
