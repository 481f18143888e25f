package delivery

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/redact"
)

// A changed file of 2 GB is compared, checked, searched for credentials to its end and handed
// over, and we do not hold it in memory.
func TestAFileOfTwoGigabytes(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute or two, and 2 GB of the disk")
	}
	const size, most = 2 << 30, 256 << 20
	p := newCleanPlay(t, document.Preparation{}, shellCheck("there", "test $(wc -c < huge.bin) = 2147483648"))
	p.known = redact.New(map[string]string{"API_KEY": apiKey})
	p.work = func(dir string) {
		f, err := os.Create(dir + "/huge.bin")
		must(p.bed, err)
		_, err = f.WriteAt([]byte(apiKey), int64(size-len(apiKey)))
		must(p.bed, err)
		must(p.bed, f.Close())
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if out := p.drive(); out.Status != flow.ParkedRun {
		t.Fatalf("%+v", out)
	}
	runtime.ReadMemStats(&after)
	s := p.subject("delivery#1")
	if s.Files != 1 || !s.Paths[0].Binary || blocked(s) != "approve:secret_in_diff apply:secret_in_diff" || outcomes(s) != "there passed" {
		t.Errorf("%+v %s", s, blocked(s))
	}
	// Without a credential in it, it is handed over.
	for action, done := range map[string]string{"apply": tipstaff.DeliveredApplied, "approve": tipstaff.DeliveredCommitted} {
		p := newPlay(t, &document.Deliver{})
		p.work = func(dir string) {
			f, err := os.Create(dir + "/huge.bin")
			must(p.bed, err)
			_, err = f.WriteAt([]byte("end"), size-3)
			must(p.bed, errors.Join(err, f.Close()))
		}
		if out := p.drive(); out.Status != flow.ParkedRun {
			t.Fatalf("%s: %+v", action, out)
		}
		p.decide("delivery#1", action)
		if out := p.drive(); p.outcome.Status != done {
			t.Fatalf("%s: %+v", action, out)
		}
		if action == "approve" {
			p.user("checkout", "-q", p.outcome.Branch)
		}
		if info, err := os.Stat(p.dir + "/huge.bin"); err != nil || info.Size() != size {
			t.Errorf("after %s: %v", action, err)
		}
	}
	runtime.ReadMemStats(&after)
	if grown := after.Sys - before.Sys; grown > most {
		t.Errorf("it took %d MB", grown>>20)
	}
}
