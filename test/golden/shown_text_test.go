//go:build unix

package golden

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// window is the time in which an answer was made.
type window struct{ from, to time.Time }

// since reports whether so many seconds have passed from a moment up to the window. The
// slack is what answers round to.
func (w window) since(at time.Time, seconds float64) bool {
	const slack = 0.01
	return !at.IsZero() && seconds >= w.from.Sub(at).Seconds()-slack && seconds <= w.to.Sub(at).Seconds()+slack
}

// steady replaces what differs every time that the runs are shown, and nothing else. Every
// placeholder can hide a fault, so values are replaced by what they are known to be, not by
// what they look like.
type steady struct {
	// known are values that this test knows: the folder, and what was written about runs
	// that were killed when the store was opened, at another time and by another process
	// each time.
	known *strings.Replacer
	// created has the moment at which each run was made, by id.
	created map[string]time.Time
	// ended has the moment of the last record that was added to a run when the store was
	// opened, which may have ended it.
	ended map[string]time.Time
	// live is set while runs are shown that had not ended when they were frozen. Of others
	// nothing depends on now.
	live bool
	// first and last are the moments of the first and the last record that was frozen here.
	first, last time.Time
}

// json replaces the spans up to now: how long a run that has not ended has existed and
// waited, and how long a gate that is open has, or one that was closed when the store was
// opened.
func (s *steady) json(v any, w window) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = s.json(v[i], w)
		}
	case object:
		wall, whole := v.get("wall_s").(json.Number)
		opened, closed := moment(v.text("opened_at")), moment(v.text("closed_at"))
		made, ended := s.created[v.text("run_id")], s.ended[v.text("run_id")]
		lasts := func(wall json.Number) bool {
			return w.since(made, seconds(wall)) || !ended.IsZero() && (window{ended, ended}).since(made, seconds(wall))
		}
		for i, m := range v {
			n, isNumber := m.value.(json.Number)
			switch {
			case !isNumber:
				v[i].value = s.json(m.value, w)
			case m.name == "wall_s" && lasts(wall):
				v[i].value = placeholder("<since it was made>")
			case m.name == "waiting_s" && whole && lasts(wall) && math.Abs(seconds(wall)-seconds(v.get("active_s"))-seconds(n)) < 0.002:
				v[i].value = placeholder("<wall_s less active_s>")
			case m.name == "waited_s" && closed.IsZero() && w.since(opened, seconds(n)):
				v[i].value = placeholder("<since opened_at>")
			case m.name == "waited_s" && closed.After(s.last) && (window{closed, closed}).since(opened, seconds(n)):
				v[i].value = placeholder("<closed_at less opened_at>")
			}
		}
	case string:
		return s.known.Replace(v)
	}
	return v
}

func seconds(v any) float64 {
	n, _ := v.(json.Number)
	f, _ := n.Float64()
	return f
}

// moment reads a time; zero: it is none.
func moment(text string) time.Time {
	at, _ := time.Parse(time.RFC3339Nano, text)
	return at
}

var (
	spans = regexp.MustCompile(`\b(\d+)h(\d\d)m\b|\b(\d+)m(\d\d)s\b|\b(\d+) d (\d+) h\b|\b(\d+) h (\d+) min\b|\b(\d+) min (\d+) s\b`)
	// units are the seconds of each group of spans.
	units  = []float64{3600, 60, 60, 1, 86400, 3600, 3600, 60, 60, 1}
	gaps   = regexp.MustCompile(` {3,}`)
	clocks = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z|\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d UTC`)
)

// text replaces spans that last up to now: those that began between the first and the last
// record here. No span that was recorded is so long, unless the runs took longer than they
// have been frozen for. Tables are as wide as these spans, so the gaps of a table that has
// any are made equal. The moment now is replaced, too.
func (s *steady) text(text string, w window) string {
	text = s.known.Replace(text)
	if !s.live {
		return text
	}
	text = clocks.ReplaceAllStringFunc(text, func(found string) string {
		at := moment(found)
		if at.IsZero() {
			at, _ = time.Parse("2 Jan 2006 15:04:05 MST", found)
		}
		if at.Before(w.from.Add(-time.Second)) || at.After(w.to.Add(time.Second)) {
			return found
		}
		return "<now>"
	})
	parts := strings.Split(text, "\n\n")
	for i, part := range parts {
		if steady := spans.ReplaceAllStringFunc(part, func(found string) string { return s.span(found, w) }); steady != part {
			parts[i] = gaps.ReplaceAllString(steady, "  ")
		}
	}
	return strings.Join(parts, "\n\n")
}

// span replaces a span that lasts up to now.
func (s *steady) span(found string, w window) string {
	long, unit := 0.0, 0.0
	for i, digits := range spans.FindStringSubmatch(found)[1:] {
		if n, err := strconv.ParseFloat(digits, 64); err == nil { // groups of other forms are empty
			long, unit = long+n*units[i], units[i]
		}
	}
	if long < w.from.Sub(s.last).Seconds()-unit || long > w.to.Sub(s.first).Seconds() {
		return found
	}
	return "<up to now>"
}

var (
	formToken = regexp.MustCompile(`name="form" value="([^"]+)"`)
	today     = regexp.MustCompile(`( today</dt><dd>)[^<]*`)
	formKey   = regexp.MustCompile(`name="key" value="[A-Z2-7]{26}"`)
	zoom      = regexp.MustCompile(`from=([0-9TZ.%A-]+)(&amp;scale=real)?&amp;to=([0-9TZ.%A-]+)`)
	assetPath = regexp.MustCompile(`/ui/assets/[0-9a-f]{16}/|data-assets="[0-9a-f]{16}"`)
	icon      = regexp.MustCompile(`(?s)<svg viewBox="0 0 (?:16 16|20 20|28 28)"[^>]*>.*?</svg>`)
	// blocks are elements that begin a line. What stands in a line of text, like links, does not.
	blocks = regexp.MustCompile(`<(?:/?(?:html|head|body|nav|main|header|footer|section|article|aside|div|ul|ol|table|thead|tbody|form|dl|details|fieldset|svg|figure|defs|pattern)|` +
		`h[1-6]|p|li|tr|dt|summary|pre|meta|link|script|title|label|input|button|textarea|select|option|datalist|dialog|g|text|rect|path|line|circle|polyline|polygon)\b`)
	blank = regexp.MustCompile(`\n[ \t\n]*`)
)

// html breaks a page into lines. What says nothing of runs is left out: the digest in the
// addresses of style sheets and scripts, which is that of the design, and what forms carry,
// a token of the session and a random key of the form. So are the ends of windows of a
// timeline that reach beyond now, for they lie as far from now as the window is wide, and
// figures of today, as which runs count that the opening of the store has ended. Icons
// stand beside words that say the same; they are told apart by their size.
func (s *steady) html(page string, w window) string {
	if m := formToken.FindStringSubmatch(page); m != nil {
		page = strings.ReplaceAll(page, m[1], "<token>")
	}
	page = assetPath.ReplaceAllStringFunc(page, func(found string) string {
		if strings.HasPrefix(found, "/") {
			return "/ui/assets/<digest>/"
		}
		return `data-assets="<digest>"`
	})
	page = today.ReplaceAllString(page, "$1<of today>")
	page = formKey.ReplaceAllString(page, `name="key" value="<random>"`)
	page = zoom.ReplaceAllStringFunc(page, func(found string) string {
		m := zoom.FindStringSubmatch(found)
		if to, err := url.QueryUnescape(m[3]); err != nil || !moment(to).After(w.from) {
			return found
		}
		return "from=<before>" + m[2] + "&amp;to=<after now>"
	})
	page = icon.ReplaceAllStringFunc(page, func(found string) string { return fmt.Sprintf("<icon %d>", len(found)) })
	page = blocks.ReplaceAllStringFunc(page, func(found string) string { return "\n" + found })
	page = blank.ReplaceAllString(s.text(page, w), "\n")
	return s.timeline(strings.TrimSpace(page) + "\n")
}

var (
	lastBreak = regexp.MustCompile(`<title>‖ waited <up to now>[^<]*</title>\n<rect x="([0-9.]+)" y="\d+" width="([0-9.]+)"`)
	bar       = regexp.MustCompile(`<rect x="([0-9.]+)" y="\d+" width="([0-9.]+)" height="12"`)
	tickText  = regexp.MustCompile(`data-form="\w+">[^<]*<`)
)

// timeline replaces what depends on how long a wait has lasted that goes on. How far a bar reaches
// into it: the break that is drawn for it is as wide as ever, so a moment in it moves as time
// passes. And how the times on the axis are written: with the day if all of it is longer than one.
func (s *steady) timeline(page string) string {
	m := lastBreak.FindStringSubmatch(page)
	if m == nil {
		return page
	}
	from, _ := strconv.ParseFloat(m[1], 64)
	wide, _ := strconv.ParseFloat(m[2], 64)
	page = tickText.ReplaceAllString(page, `data-form="<by the length>"><time><`)
	return bar.ReplaceAllStringFunc(page, func(found string) string {
		b := bar.FindStringSubmatch(found)
		x, _ := strconv.ParseFloat(b[1], 64)
		w, _ := strconv.ParseFloat(b[2], 64)
		if x+w < from-0.05 || x+w >= from+wide { // a tenth is what is drawn
			return found
		}
		return strings.Replace(found, `width="`+b[2], `width="<into the wait>`, 1)
	})
}
